"""``asd-sweep verify``: is this artifact to be trusted, here and now? Works offline, and where no study ever ran.

Knows nothing of what is checked (sweeper/artifact/verify.py); shows each answer and gives the exit code.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studies.errors import UsageError
from sweeper.cli.options import ApiKeyFileOption, JsonOption, TrustOption, examples, require_artifact, time_of
from sweeper.cli.output import emit_json, out

if TYPE_CHECKING:
    from sweeper.artifact.errors import Refused
    from sweeper.artifact.policy import Trust
    from sweeper.artifact.verify import VerifiedArtifact
    from sweeper.cli.verify_host import Compared


def register(app: typer.Typer) -> None:
    """Add ``verify`` to ``app``."""
    command = app.command(
        "verify",
        epilog=examples(
            "asd-sweep verify math.asd --trust trust.d",
            "asd-sweep verify math.asd --target ./Qwen3-14B --drafter ./DSpark-14B",
            "asd-sweep verify math.asd --server http://localhost:8000",
            "asd-sweep verify --explain rollback",
        )
        + "\n\nExit code 0: verified. 1: refused. 2: it could not be asked, such as an artifact that is not there.",
    )
    command(verify_command)


@dataclass
class _Verdict:
    """All that was asked, in order. code, message: of the first refusal, "" when there was none."""

    checks: list[tuple[str, bool, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    code: str = ""
    message: str = ""
    artifact: "VerifiedArtifact | None" = None
    trust: "Trust | None" = None

    def refuse(self, name: str, refused: "Refused") -> None:
        self.checks.append((name, False, str(refused)))
        self.code, self.message = refused.code, refused.message

    def add(self, answers: "Sequence[Compared]") -> None:
        for answer in answers:
            self.checks.append((answer.name, answer.ok, answer.detail))
            if not answer.ok and not self.code:
                self.code, self.message = answer.code, answer.detail.removeprefix(f"{answer.code}: ")


def verify_command(
    artifact: Annotated[
        Path | None, typer.Argument(metavar="ARTIFACT", help="The artifact's folder (NAME.asd).")
    ] = None,
    trust: TrustOption = None,
    target: Annotated[
        Path | None, typer.Option("--target", metavar="DIR", help="Compare with this target model's folder.")
    ] = None,
    drafter: Annotated[
        Path | None, typer.Option("--drafter", metavar="DIR", help="Compare with this drafter's folder.")
    ] = None,
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="Compare with what this running server says it runs.")
    ] = None,
    api_key_file: ApiKeyFileOption = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Verify as of a day or time in UTC. Default: now.")
    ] = None,
    require_audit: Annotated[
        bool | None,
        typer.Option(
            "--require-audit/--no-require-audit", help="Ask for a quality audit or not, whatever the policy says."
        ),
    ] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="CODE", help="Explain a refusal's code, and verify nothing.")
    ] = None,
    json_wanted: JsonOption = False,
) -> None:
    """Check an artifact's signatures, age, lineage, audit and evidence against a trust folder.

    Prints one line a check, then VERIFIED or REFUSED with a code. Needs no network, unless --server is given. A server
    makes the same checks itself, and compares what it has loaded.
    """
    if explain is not None:
        if artifact is not None:
            raise UsageError("--explain verifies nothing; leave out ARTIFACT or --explain")
        _explain(explain, json_wanted)
        return
    if artifact is None:
        raise UsageError("Missing argument 'ARTIFACT': the folder that asd-sweep freeze wrote (NAME.asd)")
    if api_key_file is not None and server is None:
        raise UsageError("--api-key-file is for --server; give both")
    require_artifact(artifact)
    moment = _moment(at)
    from sweeper.freeze.trust_folder import trust_for

    folder = trust_for(artifact, trust)
    verdict = _verify(artifact, folder, at=moment, require_audit=require_audit)
    if verdict.artifact is not None and verdict.trust is not None:
        _compare(verdict, verdict.artifact, verdict.trust, target, drafter, server, api_key_file)
    if json_wanted:
        emit_json(_to_json(verdict, artifact, folder, moment))
    else:
        _print(verdict)
    if verdict.code:
        raise typer.Exit(1)


def _verify(artifact: Path, folder: Path, *, at: datetime, require_audit: bool | None) -> _Verdict:
    from sweeper.artifact.errors import Refused
    from sweeper.artifact.policy import load_trust
    from sweeper.artifact.verify import read_artifact, verify_report

    verdict = _Verdict()
    try:
        trust = load_trust(folder)
    except Refused as refused:
        verdict.refuse("trust folder", refused)
        return verdict
    verdict.trust = trust
    keys = f"{len(trust.keys)} key{'s' if len(trust.keys) > 1 else ''}"
    verdict.checks.append(("trust folder", True, f"{folder}, {keys}, policy {trust.policy_sha256[:16]}"))
    try:
        files = read_artifact(artifact)
    except Refused as refused:
        verdict.refuse("files", refused)
        return verdict
    verdict.checks.append(("files", True, f"{len(files.frozen)} freeze, {len(files.audits)} audit"))
    report = verify_report(files, trust, at=at, require_audit=require_audit)
    verdict.checks += [(check.name, check.ok, check.detail) for check in report.checks]
    if report.refused is not None:
        verdict.code, verdict.message = report.refused.code, report.refused.message
    elif report.artifact is not None:
        verdict.artifact = report.artifact
        verdict.warnings += report.artifact.warnings
    return verdict


def _compare(
    verdict: _Verdict,
    artifact: "VerifiedArtifact",
    trust: "Trust",
    target: Path | None,
    drafter: Path | None,
    server: str | None,
    api_key_file: Path | None,
) -> None:
    from sweeper.cli.verify_host import compare_folder, compare_server

    bound = artifact.frozen.bindings
    compared: list[Compared] = []
    for role, folder in (("target", target), ("drafter", drafter)):
        if folder is not None:
            compared += compare_folder(role, folder.expanduser(), bound)
    if server is not None:
        compared += compare_server(server, api_key_file=api_key_file, artifact_id=artifact.id, trust=trust)
    verdict.add(compared)
    if target is not None or drafter is not None:
        asked = {answer.name for answer in compared}
        verdict.not_compared = sorted(name for name in bound if name not in asked)


def _moment(at: str | None) -> datetime:
    from sweeper.artifact.fields import moment

    return datetime.now(UTC) if at is None else moment(time_of(at, "--at"))


def _explain(code: str, json_wanted: bool) -> None:
    from sweeper.cli.verify_host import ALL_CODES

    found = ALL_CODES.get(code)
    if found is None:
        raise UsageError(f"there is no code {code!a}; codes: {', '.join(sorted(ALL_CODES))}")
    if json_wanted:
        emit_json({"code": code, "meaning": found.meaning, "advice": found.advice})
        return
    for line in (code, f"  {found.meaning}", f"  {found.advice}"):
        out.print(line, markup=False, soft_wrap=True)


def _print(verdict: _Verdict) -> None:
    width = max(len(name) for name, _, _ in verdict.checks)
    lines = [f"{'ok  ' if ok else 'FAIL'}  {name:<{width}}  {detail}" for name, ok, detail in verdict.checks]
    lines += [f"note  {warning}" for warning in verdict.warnings]
    if verdict.not_compared:
        lines.append(f"note  not compared here, the server does it: {', '.join(verdict.not_compared)}")
    found = verdict.artifact
    if verdict.code or found is None:
        lines.append(f"REFUSED {verdict.code}: {verdict.message}")
    else:
        lines.append(f"VERIFIED id={found.id} signer={','.join(found.signers)} expires={found.frozen.not_after}")
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)


def _to_json(verdict: _Verdict, artifact: Path, folder: Path, at: datetime) -> dict[str, Any]:
    from sweeper.artifact.fields import plain, time_text
    from sweeper.cli.verify_host import ALL_CODES

    found = verdict.artifact
    refused = None
    if verdict.code:
        refused = {"code": verdict.code, "message": verdict.message, "advice": ALL_CODES[verdict.code].advice}
    described: dict[str, Any] | None = None
    if found is not None:
        described = {
            "id": found.id,
            "lineage": found.frozen.lineage,
            "serial": found.frozen.serial,
            "created": found.frozen.created,
            "not_after": found.frozen.not_after,
            "controls": plain(found.frozen.controls),
            "signers": list(found.signers),
            "audits": [audit.id for audit in found.audits],
        }
    return {
        "verified": not verdict.code,
        "refused": refused,
        "artifact": described,
        "checks": [{"name": name, "ok": ok, "detail": detail} for name, ok, detail in verdict.checks],
        "warnings": verdict.warnings,
        "not_compared": verdict.not_compared,
        "source": str(artifact),
        "trust": str(folder),
        "policy_sha256": None if verdict.trust is None else verdict.trust.policy_sha256,
        "at": time_text(at),
    }
