"""One driver per study: who holds a study, and refusing the second driver.

Knows nothing of what a driver does.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from storage.database import Database
from storage.lockfile import Holder, current_holder, held
from studies.errors import StorageError, StudyLockedError

# a reader that looks at the lock holds it for an instant
_PATIENCE_SECONDS = 1.0


@contextmanager
def study_lock(database: Database, study: str) -> Iterator[None]:
    """Be the driver of ``study`` while the block runs; the lock vanishes with the process, also after kill -9.

    Raises StudyLockedError, which says who holds it, and StorageError when the lock file cannot be made.
    """
    path = database.lock_path(study)
    with ExitStack() as stack:
        try:
            free = stack.enter_context(held(path, database.this_process(), wait_seconds=_PATIENCE_SECONDS))
        except OSError as error:
            raise StorageError(f"the lock {path} cannot be made ({error.strerror}); give another --storage") from error
        if not free:
            raise StudyLockedError(
                f"study {study} is being run by {current_holder(path) or 'another process'}; wait for it or stop it, "
                "follow it with asd-sweep status, or measure under another name with --as"
            )
        yield


def driver_of(database: Database, study: str) -> Holder | None:
    """The process that runs ``study`` now, if any; writes nothing."""
    return current_holder(database.lock_path(study))
