"""A trust folder as ``trust`` shows it, in words and as JSON; the options that all its commands have.

Knows nothing of how a folder is changed.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studies.errors import UsageError
from sweeper.cli.output import emit_json, err, out

if TYPE_CHECKING:
    from sweeper.freeze.trust_folder import Contents, TrustedKey

DirOption = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="Trust folder. Default: /etc/asd-sweep/trust.d when it is there, else ~/.config/asd-sweep/trust.d.",
    ),
]


def lineages_of(texts: list[str]) -> dict[str, int]:
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


def report(found: "Contents", json_wanted: bool) -> None:
    """Show the folder on standard output, and what it lacks on standard error."""
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
    say(f"{found.folder}")
    for key in found.keys:
        facts = [key.public.fingerprint, key.public.algorithm, key.file, *_limits(key)]
        say("  key      " + "  ".join([*facts, *([f"# {key.comment}"] if key.comment else [])]))
    for lineage, floor in policy.lineages.items():
        say(f"  lineage  {lineage} from serial {floor}")
    shown = {key.public.fingerprint for key in found.keys}
    for what in (*(key for key in policy.revoked_keys if key not in shown), *policy.revoked_artifacts):
        say(f"  revoked  {what}")
    wanted = f"{policy.threshold} signer{'s' if policy.threshold > 1 else ''}"
    audit = "an audit" if policy.require_audit else "no audit"
    evidence = "weak evidence too" if policy.accept_weak_evidence else "strong evidence only"
    cap = policy.max_margin_pp
    margin = "any margin" if cap is None else f"a margin of at most {cap} point{'' if cap == '1' else 's'}"
    say(f"  asks for {wanted}, {audit}, {evidence}, {margin}")
    percent = f" {policy.canary_percent} %" if policy.mode == "canary" else ""
    who = "requests that opt in" if policy.opt_in else "all covered requests"
    refused = "does not start" if policy.on_failure == "exit" else "decodes strictly"
    say(f"  mode     {policy.mode}{percent} for {who}; too long: {policy.uncovered.too_long}; refused: {refused}")
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


def say(line: str) -> None:
    """One line of the answer, as it is."""
    out.print(line, markup=False, soft_wrap=True)
