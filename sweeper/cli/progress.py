"""Progress of a run on standard error: a live line on a terminal, one plain line an event elsewhere."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from dashboards.wording import duration
from studies.legs import LegRecord
from studies.measurement import Measurement
from studies.outcome import StoredOutcome
from sweeper.run.progress import Counts


class TerminalProgress:
    """Implements sweeper.run.progress.Progress on a rich console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Progress(
            TextColumn("{task.fields[doing]}"),
            BarColumn(bar_width=16),
            TextColumn("{task.completed:.0f}/{task.total:.0f} cells  {task.fields[left]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            refresh_per_second=4,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> "TerminalProgress":
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def note(self, message: str) -> None:
        self._console.print(message, markup=False, soft_wrap=True)

    def leg(self, record: LegRecord, counts: Counts) -> None:
        left = "" if counts.eta_seconds is None else f"about {duration(counts.eta_seconds)} left"
        doing = f"{counts.legs_done} legs, {record.order.purpose} {record.order.role} K={record.order.draft_length}"
        if self._task is None:
            self._task = self._live.add_task("", total=counts.cells_total, doing=doing, left=left)
        self._live.update(self._task, completed=counts.cells_done, doing=doing, left=left)

    def trial(self, outcome: StoredOutcome, counts: Counts) -> None:
        self._console.print(
            f"[{counts.cells_done}/{counts.cells_total}] trial {outcome.trial} {outcome.cell.key}: {_verdict(outcome)}",
            markup=False,
            soft_wrap=True,
        )


def _verdict(outcome: StoredOutcome) -> str:
    if not outcome.measurement:
        return f"{outcome.state}, {outcome.reason}"
    measurement = Measurement.from_json(outcome.measurement)
    gain = measurement.gain_pct
    if gain.mean is None:
        said = "no gain measured"
    elif gain.lo is None or gain.hi is None:
        said = f"gain {gain.mean:+.1f} % (n={gain.n}, no interval)"
    else:
        said = f"gain {gain.mean:+.1f} % [{gain.lo:+.1f}, {gain.hi:+.1f}] (n={gain.n}, {measurement.clock} clock)"
    rejected = f", {measurement.rejected} triplets rejected" if measurement.rejected else ""
    return f"{said}{rejected}" + (f"; {outcome.state}: {outcome.reason}" if outcome.reason else "")
