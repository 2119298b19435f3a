// Verifies a Sigstore bundle with Sigstore's own packages: node check.mjs BUNDLE PUBLIC_KEY_PEM HINT
// Prints the payload in base64. Exit code 1 and the error's code when it is refused.
import { readFileSync } from "node:fs";
import { createPublicKey } from "node:crypto";
import { bundleFromJSON } from "@sigstore/bundle";
import { TrustedRoot } from "@sigstore/protobuf-specs";
import { Verifier, toSignedEntity, toTrustMaterial } from "@sigstore/verify";

const [bundlePath, keyPath, hint] = process.argv.slice(2);
const key = createPublicKey(readFileSync(keyPath));
const root = TrustedRoot.fromJSON({
  mediaType: "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
  tlogs: [],
  certificateAuthorities: [],
  ctlogs: [],
  timestampAuthorities: [],
});
try {
  const bundle = bundleFromJSON(JSON.parse(readFileSync(bundlePath, "ascii")));
  const trust = toTrustMaterial(root, { [hint]: { rawBytes: key.export({ type: "spki", format: "der" }) } });
  const verifier = new Verifier(trust, { ctlogThreshold: 0, tlogThreshold: 0, timestampThreshold: 0 });
  verifier.verify(toSignedEntity(bundle));
  console.log(bundle.content.dsseEnvelope.payload.toString("base64"));
} catch (error) {
  console.log(error.code ?? String(error));
  process.exit(1);
}
