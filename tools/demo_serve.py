"""From a measured study to a server that decodes with its frozen controls, and to one that refuses: `make demo-serve`.

Only what a user would type: the command asd-sweep, vLLM's own server, HTTP. Every step checks what it shows; the exit
code is 1 when one of them did not hold. The private keys are made for this demonstration and lie in its folder.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo_server import Answer, VllmServer, read_environment, stock_arguments
from vllm_process import ServerDidNotStart

ROOT = Path(__file__).resolve().parent.parent
LINEAGE = "demo/word-problems/embedded"
QUESTIONS = 16
MAX_TOKENS = 48
ADMIN_TOKEN = "only-for-the-demonstration"


class Failed(Exception):
    """A command or a check of the demonstration did not do what it must."""


@dataclass
class Demo:
    """One demonstration. study: a preset, a file or a stored study. folder: everything it writes."""

    study: str
    folder: Path
    storage: str | None = None
    say: Callable[[str], None] = print
    shown: list[str] = field(default_factory=list)

    @property
    def artifact(self) -> Path:
        return self.folder / "demo.asd"

    @property
    def trust(self) -> Path:
        return self.folder / "trust"

    @property
    def exported(self) -> Path:
        return self.folder / "exported"

    @property
    def policy(self) -> Path:
        return self.trust / "policy.json"

    def run(self) -> None:
        """All of it, in order. Raises Failed, ServerDidNotStart, subprocess.CalledProcessError."""
        self.measure()
        self.make_keys()
        self.freeze()
        self.verify_and_export()
        strict = self.ask_stock_server()
        self.ask_frozen_server(strict)
        self.tamper(strict)

    def measure(self) -> None:
        self.step("measure the study (nothing to do if that was done)")
        self.command("start", "--study", self.study, *self.stored())

    def make_keys(self) -> None:
        self.step("make a key for who freezes and one for who audits; trust both")
        made_here = self.folder / "made-by-demo-serve"
        if made_here.is_file():
            shutil.rmtree(self.folder)
        elif self.folder.exists():
            raise Failed(f"{self.folder} exists and is not of an earlier demonstration; give another --folder")
        self.folder.mkdir(parents=True)
        made_here.touch()
        passphrase = self.secret("passphrase", "only for the demonstration")
        for name, purpose in (("freezer", "freeze"), ("auditor", "audit")):
            key = self.folder / name
            self.command("keys", "generate", "--out", str(key), "--passphrase-file", str(passphrase))
            self.command("trust", "add", f"{key}.pub", "--dir", str(self.trust), "--purpose", purpose)
        self.command("trust", "allow", LINEAGE, "--dir", str(self.trust))
        self.step("the margin is small and so are the slices: let the policy accept weak evidence")
        self.command("trust", "set", "--dir", str(self.trust), "--accept-weak-evidence")

    def freeze(self) -> None:
        self.step("freeze: measure one cell again on prompts the search never saw, and sign it")
        passphrase = ("--passphrase-file", str(self.folder / "passphrase"))
        self.command(
            *("freeze", "--study", self.study, *self.stored(), "--trial", str(self.gentlest())),
            *("--key", str(self.folder / "freezer.key"), *passphrase),
            *("--lineage", LINEAGE, "--expires", "1d", "--accept-weak-evidence", "--yes", "-o", str(self.artifact)),
        )
        self.step("audit: the accuracy on the holdout, signed by another key")
        self.command(
            *("audit", str(self.artifact), "--study", self.study, *self.stored()),
            *("--key", str(self.folder / "auditor.key"), *passphrase, "--accept-weak-evidence", "--yes"),
        )

    def verify_and_export(self) -> None:
        self.step("verify, and write the files a server takes")
        self.command("verify", str(self.artifact), "--trust", str(self.trust))
        self.command(
            *("export", str(self.artifact), "--to", "vllm", "--trust", str(self.trust), "--out", str(self.exported)),
            *("--artifact-path", str(self.artifact), "--policy-path", str(self.policy), *self.model()),
        )

    def ask_stock_server(self) -> list[Answer]:
        self.step("a stock vLLM server, to compare with")
        stock = stock_arguments(self.exported / "asd.vllm.yaml")
        environment = {k: v for k, v in self.environment().items() if k.startswith("VLLM_") and k != "VLLM_PLUGINS"}
        with VllmServer(stock, environment=environment, log=self.folder / "stock.log") as server:
            answers = [server.chat(question, max_tokens=MAX_TOKENS) for question in self.questions()]
            self.check("the stock server knows nothing of ASD", server.total("asd_requests_total") == 0)
        return answers

    def ask_frozen_server(self, strict: list[Answer]) -> None:
        self.step("the same server with the exported files")
        token = self.secret("admin-token", ADMIN_TOKEN)
        audit_log = self.folder / "decisions.jsonl"
        ours = {"ASD_SWEEP_ADMIN_TOKEN_FILE": str(token), "ASD_SWEEP_AUDIT_LOG": str(audit_log)}
        with self.server("frozen", **ours) as server:
            status = server.get("/v1/asd/status")
            self.say(f"  status: mode {status['mode']}, artifact {str(status['artifact'])[:16]}, {status['controls']}")
            self.check("it decodes with the verified artifact", status["mode"] == "enforce")

            off = [server.chat(question, max_tokens=MAX_TOKENS, asd="off") for question in self.questions()]
            self.settle(server, requests=QUESTIONS)
            self.check("requests with asd: off get what the stock server gives", off == strict)
            self.check("and make no exception", server.total("asd_exceptions_total") == 0)

            loose = [server.chat(question, max_tokens=MAX_TOKENS) for question in self.questions()]
            self.settle(server, requests=2 * QUESTIONS)
            exceptions = server.total("asd_exceptions_total")
            changed = sum(a != b for a, b in zip(loose, strict, strict=True))
            self.say(f"  {exceptions:.0f} exceptions in {QUESTIONS} requests, {changed} texts differ from strict")
            self.check("ASD made exceptions, as /metrics says", exceptions > 0)
            self.command(
                *("watch", "--artifact", str(self.artifact), "--trust", str(self.trust), "--server", server.url),
                *("--since-start", "--once"),
                accept=(0, 1),
            )

            self.step("the kill switch")
            wrong = server.post("/v1/asd/strict", token="not the token")
            self.check("a stranger may not use it", wrong.status_code in (401, 403))
            server.post("/v1/asd/strict", token=ADMIN_TOKEN).raise_for_status()
            after = [server.chat(question, max_tokens=MAX_TOKENS) for question in self.questions()]
            self.settle(server, requests=3 * QUESTIONS)
            self.check("after it, no further exception", server.total("asd_exceptions_total") == exceptions)
            self.check("and strict texts", after == strict)
        self.check("every decision is in the audit log", len(audit_log.read_text("utf-8").splitlines()) >= 2)

    def tamper(self, strict: list[Answer]) -> None:
        self.step("one control changed in the signed file: the server must not start")
        bundle = self.artifact / "freeze.sigstore.json"
        signed = bundle.read_bytes()
        bundle.write_bytes(with_double_budget(signed))
        try:
            self.command("verify", str(self.artifact), "--trust", str(self.trust), accept=(1,))
            try:
                with self.server("tampered"):
                    raise Failed("a server started on a tampered artifact")
            except ServerDidNotStart as refused:
                self.check("it refuses to start, with the code", "no-trusted-signature" in refused.log)
            self.step("the same with a policy that says: decode strictly")
            self.command("trust", "set", "--dir", str(self.trust), "--on-failure", "strict")
            with self.server("tampered-strict") as server:
                status = server.get("/v1/asd/status")
                self.say(f"  status: mode {status['mode']}, reason {status['reason']}")
                answers = [server.chat(question, max_tokens=MAX_TOKENS) for question in self.questions()[:4]]
                self.check("it says why it is strict", status["reason"] == "no-trusted-signature")
                self.check("and is", status["mode"] == "strict" and answers == strict[:4])
        finally:
            bundle.write_bytes(signed)

    def gentlest(self) -> int:
        """The trial with the smallest gate at the largest draft length.

        In the quickstart study that is (8, 0.25, 2) at K = 7. Its fastest cell loses answers: freezing it is refused.
        """
        name = json.loads(self.command("studies", "show", self.study, "--json", quiet=True))["study"]
        found = json.loads(self.command("frontier", "--study", name, "--json", *self.stored(), quiet=True))
        cells = [cell for cell in found["cells"] if cell["state"] == "complete" and cell["controls"]["budget"] != 0]
        if not cells:
            raise Failed("the study has no complete cell other than strict")
        best = min(cells, key=lambda cell: (-cell["controls"]["draft_length"], cell["controls"]["gate"]))
        return int(best["trial"])

    # -- what the steps are made of ----------------------------------------------------------------------------

    def secret(self, name: str, text: str) -> Path:
        """A file of the demonstration that only this user can read."""
        file = self.folder / name
        file.touch(mode=0o600)
        file.write_text(f"{text}\n", "utf-8")
        return file

    def server(self, name: str, **ours: str) -> VllmServer:
        arguments = ["--config", str(self.exported / "asd.vllm.yaml")]
        environment = {**self.environment(), **ours}
        return VllmServer(arguments, environment=environment, log=self.folder / f"{name}.log")

    def environment(self) -> dict[str, str]:
        return read_environment(self.exported / "asd.env")

    def model(self) -> list[str]:
        """The embedded model's folder: the artifact names it, and a server needs its path."""
        found = json.loads(self.command("models", "show", "embedded", "--json", quiet=True))
        return ["--model", found["path"]]

    def questions(self) -> list[str]:
        """Made-up word problems that no slice of the study holds: another seed."""
        from sweeper.measure.tasks.generator import generate_problems

        return [problem.question for problem in generate_problems(QUESTIONS, level=1, seed=77)]

    def stored(self) -> list[str]:
        return [] if self.storage is None else ["--storage", self.storage]

    def settle(self, server: VllmServer, *, requests: int) -> None:
        """Wait until /metrics has counted that many finished requests; counters are read once a second."""
        for _ in range(100):
            if server.total("asd_requests_total") >= requests:
                return
            time.sleep(0.2)
        raise Failed(f"/metrics never counted {requests} requests: {server.metrics()}")

    def command(self, *arguments: str, accept: Sequence[int] = (0,), quiet: bool = False) -> str:
        """Run asd-sweep as a user would; gives its standard output. Raises Failed for another exit code."""
        if not quiet:
            self.say("  $ asd-sweep " + " ".join(arguments))
        call = [str(Path(sys.executable).with_name("asd-sweep")), *arguments]
        done = subprocess.run(call, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
        if not quiet:
            self.say("".join(f"    {line}\n" for line in done.stdout.splitlines()).rstrip("\n"))
        if done.returncode not in accept:
            raise Failed(f"asd-sweep {arguments[0]} ended with exit code {done.returncode}")
        return done.stdout

    def step(self, what: str) -> None:
        self.say(f"\n== {what}")

    def check(self, what: str, holds: bool) -> None:
        """Say that something holds; Failed when it does not."""
        if not holds:
            raise Failed(f"this does not hold: {what}")
        self.say(f"  ok: {what}")
        self.shown.append(what)


def with_double_budget(bundle: bytes) -> bytes:
    """The bundle with B doubled inside its payload, encoded again; its signature stays that of the old payload."""
    value: dict[str, Any] = json.loads(bundle)
    payload = json.loads(base64.b64decode(value["dsseEnvelope"]["payload"]))
    controls = payload["predicate"]["controls"]
    controls["B"] = str(2 * float(controls["B"])).removesuffix(".0")
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    value["dsseEnvelope"]["payload"] = base64.b64encode(text.encode("ascii")).decode("ascii")
    return json.dumps(value).encode("ascii")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--study", default="quickstart", help="a preset, a study file or a stored study")
    parser.add_argument(
        "--folder", type=Path, default=Path(".asd-sweep/demo-serve"), help="where everything is written"
    )
    parser.add_argument("--storage", help="database of studies; the default is the usual one")
    given = parser.parse_args(arguments)
    demo = Demo(given.study, given.folder.absolute(), given.storage)
    try:
        demo.run()
    except (Failed, ServerDidNotStart) as error:
        print(f"demo_serve: {str(error).splitlines()[0]}; the servers' logs are in {demo.folder}", file=sys.stderr)
        return 1
    print(f"\n{len(demo.shown)} checks held; logs, keys and the artifact are in {demo.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
