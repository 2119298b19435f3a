"""``asd-sweep watch``: hold a running server's counters against the evidence in its artifact."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from studies.errors import UsageError
from sweeper.cli.options import ApiKeyFileOption, JsonOption, TrustOption, examples, require_artifact
from sweeper.cli.output import emit_json, emit_json_line, err, out
from sweeper.cli.refusals import refusals_as_errors


def register(app: typer.Typer) -> None:
    """Add ``watch`` to ``app``."""
    app.command(
        "watch",
        epilog=examples(
            "asd-sweep watch --artifact math.asd --server http://localhost:8000 --trust trust",
            "asd-sweep watch --artifact math.asd --server http://localhost:8000 --once --since-start --json",
            "asd-sweep watch --artifact math.asd --server https://llm.example --interval 5m --count 12",
        )
        + "\n\nExit code 0: no window was outside. 1: one was, or the server did not answer. Ctrl-C ends with 130."
        "\n\n--json prints one document with --once, and otherwise one line of JSON for each window.",
    )(watch_command)


def watch_command(
    artifact: Annotated[
        Path,
        typer.Option("--artifact", metavar="DIR", help="The artifact's folder (NAME.asd)."),
    ],
    server: Annotated[str, typer.Option("--server", metavar="URL", help="The server, as http://localhost:8000.")],
    trust: TrustOption = None,
    api_key_file: ApiKeyFileOption = None,
    interval: Annotated[
        str, typer.Option("--interval", metavar="TIME", help="Length of a window: 30s, 5m, 1h.")
    ] = "30s",
    count: Annotated[int | None, typer.Option("--count", min=1, metavar="N", help="End after N windows.")] = None,
    once: Annotated[bool, typer.Option("--once", help="End after one window.")] = False,
    since_start: Annotated[
        bool,
        typer.Option("--since-start", help="Windows reach back to the server's start; the first needs no waiting."),
    ] = False,
    json_wanted: JsonOption = False,
) -> None:
    """Compare a server's counters with its artifact's evidence: tokens a round, exceptions, regret, and its state.

    The artifact is verified first. A window with too little traffic is told, not judged.

    Runs until interrupted, unless one of --once and --count is given.
    """
    from sweeper.artifact.policy import load_trust
    from sweeper.artifact.statements import moment
    from sweeper.artifact.verify import read_artifact, verify
    from sweeper.freeze.trust_folder import trust_for
    from sweeper.watch.envelope import envelope_of
    from sweeper.watch.judge import Watched
    from sweeper.watch.lines import line
    from sweeper.watch.loop import parse_duration, watch
    from sweeper.watch.server import Server, read_api_key

    require_artifact(artifact)
    if once and count not in (None, 1):
        raise UsageError(f"--once ends after one window and --count after {count}; give one of them")
    seconds = parse_duration(interval)
    asked = Server(server, api_key=None if api_key_file is None else read_api_key(api_key_file))
    with refusals_as_errors():
        verified = verify(read_artifact(artifact), load_trust(trust_for(artifact, trust)), at=datetime.now(UTC))
    frozen = verified.frozen
    envelope = envelope_of(frozen.evidence, budget=frozen.controls.budget, gate=frozen.controls.gate)
    watched = Watched(verified.id, moment(frozen.not_after), envelope)
    for name in envelope.unjudged:
        err.print(f"asd-sweep: warning: the artifact has no interval for {name}; it is not judged", markup=False)
    outside = False
    events = watch(
        asked,
        watched,
        count=1 if once else count,
        interval_seconds=seconds,
        since_start=since_start,
        sleep=time.sleep,
    )
    for event in events:
        outside = outside or event.verdict == "outside"
        if not json_wanted:
            out.print(line(event), markup=False, soft_wrap=True)
        elif once:
            emit_json(event.to_json())
        else:
            emit_json_line(event.to_json())
    if outside:
        raise typer.Exit(1)
