"""``asd-sweep`` that kills itself with signal 9 at a chosen moment: ``doomed.py MOMENT COUNT ARGUMENTS...``

Each function is one moment; it is reached at the COUNT-th call. What the process leaves is what a test looks at.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from storage import outcomes, trials
from storage.legs import LegJournal
from storage.trials import TrialBook
from sweeper.cli import app


def _die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _at(count: int, original: Callable[..., Any], *, after: bool = False) -> Callable[..., Any]:
    """``original``, but its ``count``-th call is the end, before or after it has been done."""
    calls = [0]

    def doomed(*values: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == count and not after:
            _die()
        result = original(*values, **named)
        if calls[0] == count:
            _die()
        return result

    return doomed


def leg_decoded(count: int) -> None:
    """A leg has been decoded and is not in the journal."""
    LegJournal.record_all = _at(count, LegJournal.record_all)  # type: ignore[method-assign]  # the doom


def leg_journaled(count: int) -> None:
    """A leg is in the journal and nothing else has happened."""
    LegJournal.record_all = _at(count, LegJournal.record_all, after=True)  # type: ignore[method-assign]  # the doom


def cells_begun(count: int) -> None:
    """The trials of a draft length have begun in Optuna's record and nothing else knows of them."""
    TrialBook.begin_many = _at(count, TrialBook.begin_many, after=True)  # type: ignore[method-assign]  # the doom


def trial_measured(count: int) -> None:
    """All legs of a trial are journaled and its outcome is not stored."""
    TrialBook.record_and_tell = _at(count, TrialBook.record_and_tell)  # type: ignore[method-assign]  # the doom


def outcome_stored(count: int) -> None:
    """A trial's outcome is stored and Optuna has not been told."""
    trials.record_outcome = _at(count, outcomes.record_outcome, after=True)


def trial_told(count: int) -> None:
    """Optuna has been told and the driver does not know it yet."""
    TrialBook.record_and_tell = _at(count, TrialBook.record_and_tell, after=True)  # type: ignore[method-assign]  # the doom


if __name__ == "__main__":
    moment, count, *arguments = sys.argv[1:]
    globals()[moment](int(count))
    sys.argv[1:] = arguments
    app.main()
