"""``asd-sweep resign``: one more key's signature on an artifact, over the same bytes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studies.errors import UsageError
from sweeper.cli.keys import KeyOption, PassphraseFdOption, PassphraseFileOption, open_key
from sweeper.cli.options import ArtifactArgument, JsonOption, examples, require_artifact
from sweeper.cli.output import emit_json, out
from sweeper.cli.refusals import refusals_as_errors
from sweeper.cli.signing import AuthenticityOption, YesOption, agreed, require_terminal, say, show_fields

if TYPE_CHECKING:
    from sweeper.artifact.keys import PublicKey


def register(app: typer.Typer) -> None:
    """Add ``resign`` to ``app``."""
    app.command(
        "resign",
        epilog=examples(
            "asd-sweep resign qwen3.asd --key new.key --trust ~/.config/asd-sweep/trust.d",
            "asd-sweep resign qwen3.asd --key second.key --public-key first.pub",
            "asd-sweep resign qwen3.asd --key new.key --trust trust --audits",
        ),
    )(resign_command)


def resign_command(
    folder: ArtifactArgument,
    key: KeyOption,
    passphrase_file: PassphraseFileOption = None,
    passphrase_fd: PassphraseFdOption = None,
    trust: AuthenticityOption = None,
    public_key: Annotated[
        Path | None,
        typer.Option("--public-key", metavar="FILE", help="Instead of --trust: the key that signed so far."),
    ] = None,
    audits: Annotated[bool, typer.Option("--audits", help="Sign the audits instead of the artifact.")] = False,
    yes: YesOption = False,
    json_wanted: JsonOption = False,
) -> int:
    """Add one more key's signature to an artifact; its content and its id stay as they are.

    For a change of keys, and for policies that ask for two signers. The signature that is there must be one of a key
    that is trusted: what nobody vouches for is not signed again.
    """
    from datetime import UTC, datetime

    from sweeper.artifact.policy import load_trust
    from sweeper.freeze.resign import originals, resign

    require_artifact(folder)
    if (trust is None) == (public_key is None):
        raise UsageError("say who is believed to have signed it: give --trust DIR or --public-key FILE")
    require_terminal(yes)
    made = []
    with refusals_as_errors():
        trusted = None if trust is None else load_trust(trust)
        known = None if public_key is None else _public_key(public_key)
        found = originals(folder, trust=trusted, known=known, at=datetime.now(UTC), audits=audits)
        signer = open_key(key, passphrase_file, passphrase_fd)
        for original in found:
            if not (yes and json_wanted):
                say(f"{original.kind} {original.id}, signed by {', '.join(original.signers)}:")
                show_fields(original.payload)
            if agreed("Sign this?", yes=yes):
                made.append((original, resign(folder, original, signer)))
    if json_wanted:
        bundles = [{"kind": o.kind, "id": o.id, "file": str(path)} for o, path in made]
        emit_json({"signer": signer.fingerprint, "bundles": bundles})
    for original, path in made if not json_wanted else ():
        out.print(f"signed {original.kind} {original.id} by {signer.fingerprint}", markup=False, soft_wrap=True)
        out.print(f"  {path}", markup=False, soft_wrap=True)
    return 0 if made else 1


def _public_key(path: Path) -> "PublicKey":
    from sweeper.artifact.keys import load_public_key

    try:
        return load_public_key(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}; expected a public key (NAME.pub)") from error
