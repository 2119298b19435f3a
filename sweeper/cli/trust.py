"""``asd-sweep trust``: whose artifacts are believed, and which of them; the folder that a serving host reads.

Knows nothing of the folder's format (sweeper/artifact/policy_file.py) or of how it is written (freeze/trust_edit.py).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from studies.errors import AsdSweepError, UsageError
from sweeper.cli.options import JsonOption, examples
from sweeper.cli.output import emit_json, err, out
from sweeper.cli.refusals import refusals_as_errors

if TYPE_CHECKING:
    from sweeper.artifact.policy import KeyRule
    from sweeper.freeze.trust_edit import Contents, TrustedKey

trust_app = typer.Typer(no_args_is_help=True, help="Say whose artifacts a server believes, and which of them.")

DirOption = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="Trust folder. Default: /etc/asd-sweep/trust.d when it is there, else ~/.config/asd-sweep/trust.d.",
    ),
]
LineageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--lineage", metavar="LINEAGE[:MIN]", help="Accept artifacts of this lineage, from serial MIN (1) on."
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``trust add|list|remove|revoke|allow|disallow|set|export`` to ``app``."""
    app.add_typer(trust_app, name="trust")


@trust_app.command(
    "add",
    epilog=examples(
        "asd-sweep trust add asd.pub --lineage prod/math/qwen3-14b --dir trust.d",
        "asd-sweep trust add auditor.pub --purpose audit --not-after 2027-12-31 --dir trust.d",
    ),
)
def add_command(
    keys: Annotated[list[Path], typer.Argument(metavar="KEY...", help="Public keys (NAME.pub).")],
    folder: DirOption = None,
    lineage: LineageOption = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the key's file in the folder.")] = None,
    not_after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Trust the key until this day (2027-12-31) or time only.")
    ] = None,
    purpose: Annotated[
        Literal["freeze", "audit", "both"] | None,
        typer.Option(help="What the key is trusted for. Default: both, or what the policy says of it already."),
    ] = None,
    json_wanted: JsonOption = False,
) -> None:
    """Trust public keys; makes the folder and its policy.json when they are not there.

    Adding a key that is there already changes its limits. Compare fingerprints with the key's owner first.
    """
    from sweeper.freeze.trust_edit import add, folder_to_edit

    with refusals_as_errors():
        changed = add(
            folder_to_edit(folder),
            [key.expanduser() for key in keys],
            name=name,
            lineages=_lineages(lineage or []),
            rule=_rule(not_after, purpose),
        )
    _report(changed, json_wanted)


@trust_app.command("list", epilog=examples("asd-sweep trust list", "asd-sweep trust list --dir trust.d --json"))
def list_command(folder: DirOption = None, json_wanted: JsonOption = False) -> None:
    """List trusted keys, accepted lineages and the rest of the policy."""
    from sweeper.freeze.trust_edit import contents, find_trust

    with refusals_as_errors():
        found = contents(find_trust(folder))
    _report(found, json_wanted)


@trust_app.command(
    "remove",
    epilog=examples("asd-sweep trust remove old.pub --dir trust.d", "asd-sweep trust remove SHA256:... --dir trust.d"),
)
def remove_command(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Fingerprint, or name of the file in the folder.")],
    folder: DirOption = None,
    json_wanted: JsonOption = False,
) -> None:
    """Trust a key no more, as at the end of a rotation. After a compromise use trust revoke."""
    from sweeper.freeze.trust_edit import find_trust, remove

    with refusals_as_errors():
        changed = remove(find_trust(folder), key)
    _report(changed, json_wanted)


@trust_app.command(
    "revoke",
    epilog=examples(
        "asd-sweep trust revoke SHA256:... --dir trust.d", "asd-sweep trust revoke 96b3025c... --dir trust.d"
    ),
)
def revoke_command(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="Fingerprint or file name of a key, or id of an artifact or audit.")
    ],
    folder: DirOption = None,
    json_wanted: JsonOption = False,
) -> None:
    """Refuse from now on everything that a key signed, or one artifact or audit.

    There are no trusted times of signing offline: revoking a key refuses also what it signed before it was stolen.
    """
    from sweeper.freeze.trust_edit import find_trust, revoke

    with refusals_as_errors():
        changed = revoke(find_trust(folder), what)
    if what.startswith("SHA256:") and all(key.public.fingerprint != what for key in changed.keys):
        err.print(f"note: no key in {changed.folder} has the fingerprint {what}", markup=False, soft_wrap=True)
    _report(changed, json_wanted)


@trust_app.command(
    "allow",
    epilog=examples(
        "asd-sweep trust allow prod/math/qwen3-14b --dir trust.d",
        "asd-sweep trust allow prod/math/qwen3-14b:4 --dir trust.d",
    ),
)
def allow_command(
    lineages: Annotated[list[str], typer.Argument(metavar="LINEAGE[:MIN]...", help="Lineage and its lowest serial.")],
    folder: DirOption = None,
    lower: Annotated[
        bool, typer.Option("--lower", help="Let a lowest serial sink: older artifacts count again.")
    ] = False,
    json_wanted: JsonOption = False,
) -> None:
    """Accept artifacts of these lineages, from a serial on: raise it, and older artifacts are refused as a rollback."""
    from sweeper.freeze.trust_edit import allow, find_trust

    with refusals_as_errors():
        changed = allow(find_trust(folder), _lineages(lineages), lower=lower)
    _report(changed, json_wanted)


@trust_app.command("disallow", epilog=examples("asd-sweep trust disallow prod/math/qwen3-14b --dir trust.d"))
def disallow_command(
    lineage: Annotated[str, typer.Argument(metavar="LINEAGE", help="Lineage to accept no more.")],
    folder: DirOption = None,
    json_wanted: JsonOption = False,
) -> None:
    """Accept artifacts of a lineage no more."""
    from sweeper.freeze.trust_edit import disallow, find_trust

    with refusals_as_errors():
        changed = disallow(find_trust(folder), lineage)
    _report(changed, json_wanted)


@trust_app.command(
    "set",
    epilog=examples(
        "asd-sweep trust set --mode canary --canary-percent 5 --dir trust.d",
        "asd-sweep trust set --threshold 2 --on-failure strict --dir trust.d",
        "asd-sweep trust set --max-margin-pp 2 --dir trust.d",
    ),
)
def set_command(
    folder: DirOption = None,
    threshold: Annotated[
        int | None, typer.Option(min=1, max=16, metavar="N", help="How many different keys must sign a freeze.")
    ] = None,
    require_audit: Annotated[
        bool | None, typer.Option("--require-audit/--no-require-audit", help="Ask for a quality audit, or do without.")
    ] = None,
    accept_weak_evidence: Annotated[
        bool | None,
        typer.Option(
            "--accept-weak-evidence/--no-accept-weak-evidence", help="Accept artifacts that say their evidence is thin."
        ),
    ] = None,
    max_margin_pp: Annotated[
        float | None,
        typer.Option(
            "--max-margin-pp",
            min=0,
            max=100,
            metavar="POINTS",
            help="Largest margin, percentage points, that an artifact or audit may be judged by.",
        ),
    ] = None,
    no_max_margin: Annotated[bool, typer.Option("--no-max-margin", help="Accept any margin again.")] = False,
    mode: Annotated[
        Literal["enforce", "canary", "strict"] | None,
        typer.Option(help="ASD for all covered requests, for a share of them, or for none."),
    ] = None,
    canary_percent: Annotated[
        int | None, typer.Option(min=1, max=100, metavar="N", help="Share of requests under ASD in mode canary.")
    ] = None,
    on_failure: Annotated[
        Literal["exit", "strict"] | None,
        typer.Option(help="When the artifact is refused: do not start, or decode strictly."),
    ] = None,
    opt_in: Annotated[
        bool | None, typer.Option("--opt-in/--no-opt-in", help="ASD only for requests that ask for it, or for all.")
    ] = None,
    too_long: Annotated[
        Literal["strict", "asd"] | None, typer.Option(help="How requests longer than the audited ones decode.")
    ] = None,
    json_wanted: JsonOption = False,
) -> None:
    """Change what the policy asks for and what the server does with it."""
    from sweeper.artifact.policy import Uncovered
    from sweeper.freeze.trust_edit import change_policy, find_trust

    wanted = {
        "threshold": threshold,
        "require_audit": require_audit,
        "accept_weak_evidence": accept_weak_evidence,
        "max_margin_pp": _margin(max_margin_pp, lifted=no_max_margin),
        "mode": mode,
        "canary_percent": canary_percent,
        "on_failure": on_failure,
        "opt_in": opt_in,
        "uncovered": None if too_long is None else Uncovered(too_long=too_long),
    }
    changes: dict[str, object] = {name: value for name, value in wanted.items() if value is not None}
    if no_max_margin:
        changes["max_margin_pp"] = None
    if not changes:
        raise UsageError("trust set needs something to set, such as --mode canary; see asd-sweep trust set --help")
    with refusals_as_errors():
        changed = change_policy(find_trust(folder), changes)
    _report(changed, json_wanted)


@trust_app.command(
    "export",
    epilog=examples(
        "asd-sweep trust export --to kubernetes -o asd-trust.yaml --dir trust.d",
        "asd-sweep trust export --to kubernetes -o - --namespace llm --dir trust.d | kubectl apply -f -",
    ),
)
def export_command(
    to: Annotated[Literal["kubernetes"], typer.Option("--to", help="A ConfigMap manifest.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write; - is standard output.")
    ],
    folder: DirOption = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the ConfigMap.")] = "asd-trust",
    namespace: Annotated[str | None, typer.Option(metavar="NAME", help="Namespace of the ConfigMap.")] = None,
    json_wanted: JsonOption = False,
) -> None:
    """Write the folder as a ConfigMap, which servers mount at /etc/asd-trust.

    Refuses a folder that a server would refuse, and one in which a private key lies.
    """
    from sweeper.freeze.trust_edit import find_trust
    from sweeper.freeze.trust_edit_manifest import config_map

    assert to == "kubernetes"
    with refusals_as_errors():
        source = find_trust(folder)
        manifest = config_map(source, name=name, namespace=namespace)
    if str(output) == "-":
        if json_wanted:
            raise UsageError("--json and -o - both want standard output; give -o FILE")
        typer.echo(manifest, nl=False)
        return
    _write(output.expanduser(), manifest, source)
    if json_wanted:
        emit_json({"file": str(output), "config_map": name, "folder": str(source)})
    else:
        _say(f"{output}  ConfigMap {name} of {source}")


def _lineages(texts: list[str]) -> dict[str, int]:
    """LINEAGE[:MIN] as lineage -> lowest serial. Raises UsageError."""
    from sweeper.artifact.fields import PATH_OF_NAMES

    found: dict[str, int] = {}
    for text in texts:
        lineage, colon, floor = text.partition(":")
        if PATH_OF_NAMES.fullmatch(lineage) is None:
            raise UsageError(f"a lineage is names of letters, digits and ._+- with / between them, got {lineage!a}")
        if colon and not (floor.isascii() and floor.isdigit() and 1 <= int(floor[:16]) < 10**15):
            raise UsageError(f"the lowest serial must be a whole number of at least 1, got {floor!a} in {text!a}")
        found[lineage] = int(floor) if colon else 1
    return found


def _margin(points: float | None, *, lifted: bool) -> str | None:
    """The cap as the policy writes it, None when none is given. Raises UsageError."""
    from sweeper.artifact.fields import decimal_text

    if points is None:
        return None
    if lifted:
        raise UsageError("--max-margin-pp and --no-max-margin contradict each other; give one of them")
    try:
        return decimal_text(points)
    except ValueError as error:
        raise UsageError(f"--max-margin-pp must be a number from 0 to 100, got {points}") from error


def _rule(not_after: str | None, purpose: str | None) -> "KeyRule | None":
    """The limits to a key, None when none is given. Raises UsageError."""
    from sweeper.artifact.policy import KeyRule

    if not_after is None and purpose is None:
        return None
    until = None if not_after is None else time_of(not_after, "--not-after")
    return KeyRule(until, KeyRule().purposes if purpose in (None, "both") else [str(purpose)])


def time_of(text: str, option: str) -> str:
    """A day (2027-12-31, its first second in UTC) or a time (2027-12-31T08:30:00Z). Raises UsageError."""
    from sweeper.artifact.errors import Refused
    from sweeper.artifact.fields import time

    try:
        return str(time(text if "T" in text else f"{text}T00:00:00Z", option))
    except Refused as refused:
        raise UsageError(
            f"{option} must be a day such as 2027-12-31 or a time such as 2027-12-31T08:30:00Z"
        ) from refused


def _report(found: "Contents", json_wanted: bool) -> None:
    from sweeper.artifact.fields import plain

    policy = found.policy
    if json_wanted:
        emit_json(
            {
                "folder": str(found.folder),
                "keys": [_key_json(key) for key in found.keys],
                "policy": plain(policy),
                "notes": list(found.notes),
            }
        )
        return
    _say(f"{found.folder}")
    for key in found.keys:
        facts = [key.public.fingerprint, key.public.algorithm, key.file, *_limits(key)]
        _say("  key      " + "  ".join([*facts, *([f"# {key.comment}"] if key.comment else [])]))
    for lineage, floor in policy.lineages.items():
        _say(f"  lineage  {lineage} from serial {floor}")
    shown = {key.public.fingerprint for key in found.keys}
    for what in (*(key for key in policy.revoked_keys if key not in shown), *policy.revoked_artifacts):
        _say(f"  revoked  {what}")
    wanted = f"{policy.threshold} signer{'s' if policy.threshold > 1 else ''}"
    audit = "an audit" if policy.require_audit else "no audit"
    evidence = "weak evidence too" if policy.accept_weak_evidence else "strong evidence only"
    cap = policy.max_margin_pp
    margin = "any margin" if cap is None else f"a margin of at most {cap} point{'' if cap == '1' else 's'}"
    _say(f"  asks for {wanted}, {audit}, {evidence}, {margin}")
    percent = f" {policy.canary_percent} %" if policy.mode == "canary" else ""
    who = "requests that opt in" if policy.opt_in else "all covered requests"
    refused = "does not start" if policy.on_failure == "exit" else "decodes strictly"
    _say(f"  mode     {policy.mode}{percent} for {who}; too long: {policy.uncovered.too_long}; refused: {refused}")
    for note in found.notes:
        err.print(f"note: {note}", markup=False, soft_wrap=True)


def _limits(key: "TrustedKey") -> list[str]:
    limits = ["REVOKED"] if key.revoked else []
    if key.rule is not None:
        limits += [f"until {key.rule.not_after}"] if key.rule.not_after is not None else []
        limits += [f"{key.rule.purposes[0]} only"] if len(key.rule.purposes) == 1 else []
    return limits


def _key_json(key: "TrustedKey") -> dict[str, Any]:
    return {
        "file": key.file,
        "fingerprint": key.public.fingerprint,
        "algorithm": key.public.algorithm,
        "comment": key.comment,
        "revoked": key.revoked,
        "not_after": None if key.rule is None else key.rule.not_after,
        "purposes": ["audit", "freeze"] if key.rule is None else key.rule.purposes,
    }


def _write(output: Path, text: str, source: Path) -> None:
    """Replace ``output`` in one step; never inside the trust folder, which only holds what is trusted."""
    if output.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"{output} lies in the trust folder itself; write the manifest elsewhere")
    partial = output.with_name(f".{output.name}.new")
    try:
        partial.write_text(text, "utf-8")
        partial.replace(output)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise AsdSweepError(f"{output} cannot be written: {error.strerror}") from error


def _say(line: str) -> None:
    out.print(line, markup=False, soft_wrap=True)
