"""Processes that kill themselves with signal 9 at a chosen moment; run as a script by ``processes.py``.

Each function is one moment. What it leaves behind is what the tests look at.
"""

import os
import signal
import sys
import time
from typing import Any

from making import CELL, STUDY, leg, outcome, space

from storage import payloads
from storage.database import Database, open_database
from storage.events import record_event
from storage.legs import LegJournal
from storage.lock import study_lock


def die(*_args: Any, **_kwargs: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def open_book(database: Database, study: str = STUDY) -> Any:
    from storage.trials import TrialBook  # Optuna takes half a second to import, and most moments do without

    return TrialBook(database, study, space())


def between_outcome_and_tell(database: Database) -> None:
    book = open_book(database)
    asked = book.ask_waiting()
    assert asked == (0, CELL)
    book._study.tell = die
    book.record_and_tell(outcome(0))


def before_the_outcome(database: Database) -> None:
    book = open_book(database)
    assert book.ask_waiting() == (0, CELL)
    die()


def inside_ask(database: Database) -> None:
    book = open_book(database)
    kept = book._study._storage.set_trial_param
    calls = []

    def second_parameter_kills(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            die()
        kept(*args)

    book._study._storage.set_trial_param = second_parameter_kills
    book.ask_sampler("RandomSampler", seed=1, draft_length=3)


def in_the_payload_file(database: Database) -> None:
    payloads.os.fsync = die
    LegJournal(database, STUDY).record(leg(1), leg_key="leg-1")


def between_payload_and_row(database: Database) -> None:
    object.__setattr__(database, "writing", die)
    LegJournal(database, STUDY).record(leg(1), leg_key="leg-1")


def inside_the_row(database: Database) -> None:
    with database.writing() as connection:
        connection.exec_driver_sql(
            "INSERT INTO asd_events (study, kind, detail, at) VALUES ('quick', 'x', '{}', 'now')"
        )
        die()


def holding_the_study(database: Database) -> None:
    with study_lock(database, STUDY):
        print("ready", flush=True)
        time.sleep(600)


def writing_events(database: Database) -> None:
    print("ready", flush=True)
    for number in range(10_000):
        record_event(database, STUDY, "tick", {"number": number})


def opening(database: Database) -> None:
    open_book(database, f"study-{os.getpid()}")
    print("ready", flush=True)


if __name__ == "__main__":
    moment, url = sys.argv[1:]
    globals()[moment](open_database(url, create=True))
