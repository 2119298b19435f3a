"""``asd-sweep trust``: whose artifacts are believed, and which of them; the folder that a serving host reads.

Here are the commands about keys and the folder itself; those about the policy are in ``trust_policy``. Knows nothing of
the folder's format (sweeper/artifact/policy_file.py) or of how it is written (freeze/trust_edit.py).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from studies.errors import AsdSweepError, UsageError
from sweeper.cli import trust_policy
from sweeper.cli.options import JsonOption, examples, time_of
from sweeper.cli.output import emit_json, err
from sweeper.cli.refusals import refusals_as_errors
from sweeper.cli.trust_report import DirOption, lineages_of, report, say

if TYPE_CHECKING:
    from sweeper.artifact.policy import KeyRule

trust_app = typer.Typer(no_args_is_help=True, help="Say whose artifacts a server believes, and which of them.")

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
    from sweeper.freeze.trust_edit import add
    from sweeper.freeze.trust_folder import folder_to_edit

    with refusals_as_errors():
        changed = add(
            folder_to_edit(folder),
            [key.expanduser() for key in keys],
            name=name,
            lineages=lineages_of(lineage or []),
            rule=_rule(not_after, purpose),
        )
    report(changed, json_wanted)


@trust_app.command("list", epilog=examples("asd-sweep trust list", "asd-sweep trust list --dir trust.d --json"))
def list_command(folder: DirOption = None, json_wanted: JsonOption = False) -> None:
    """List trusted keys, accepted lineages and the rest of the policy."""
    from sweeper.freeze.trust_folder import contents, find_trust

    with refusals_as_errors():
        found = contents(find_trust(folder))
    report(found, json_wanted)


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
    from sweeper.freeze.trust_edit import remove
    from sweeper.freeze.trust_folder import find_trust

    with refusals_as_errors():
        changed = remove(find_trust(folder), key)
    report(changed, json_wanted)


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
    from sweeper.freeze.trust_edit import revoke
    from sweeper.freeze.trust_folder import find_trust

    with refusals_as_errors():
        changed = revoke(find_trust(folder), what)
    if what.startswith("SHA256:") and all(key.public.fingerprint != what for key in changed.keys):
        err.print(f"note: no key in {changed.folder} has the fingerprint {what}", markup=False, soft_wrap=True)
    report(changed, json_wanted)


trust_policy.register(trust_app)


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
    from sweeper.freeze.trust_folder import find_trust
    from sweeper.freeze.trust_manifest import config_map

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
        say(f"{output}  ConfigMap {name} of {source}")


def _rule(not_after: str | None, purpose: str | None) -> "KeyRule | None":
    """The limits to a key, None when none is given. Raises UsageError."""
    from sweeper.artifact.policy import KeyRule

    if not_after is None and purpose is None:
        return None
    until = None if not_after is None else time_of(not_after, "--not-after")
    return KeyRule(until, KeyRule().purposes if purpose in (None, "both") else [str(purpose)])


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
