"""The tree of errors a user can meet; each one carries a sentence and an exit code.

    AsdSweepError                 exit 1, something went wrong while doing what was asked
    |-- UsageError                exit 2, what was asked cannot be done as written
    |   |-- SpecError             a study file or a setting in it
    |   |-- DataError             prompts: missing, wrong format, too few
    |   |-- ModelNotFoundError    a target or drafter that is not here
    |   `-- StudyMismatchError    an existing study was made with another plan
    |-- StorageError              the database: locked, newer than us, unreadable
    |   |-- StudyLockedError      another driver holds the study
    |   `-- StudyNotFoundError    no study of that name (exit 2)
    |-- EngineError               the engine cannot start or decode
    |   |-- EngineOutOfMemoryError
    |   `-- CanaryError           the engine decodes, but not as it must
    |-- WorkerLostError           a worker process died
    |-- ArtifactRefusedError      an artifact, a key or a trust folder that must not be used
    `-- FreezeRefusedError        nothing is signed: no cell to freeze, or too little evidence
        `-- SliceSpentError       the prompts that prove a cell were spent on another one

Messages say what was expected, what came and what to do. Only ``sweeper/cli/failures.py`` prints them.
"""


class AsdSweepError(Exception):
    """Base of every error meant for the user's eyes; ``exit_code`` is the process's status."""

    exit_code = 1


class UsageError(AsdSweepError):
    """The request cannot be carried out as written."""

    exit_code = 2


class SpecError(UsageError):
    """A study file, or one of its settings, is not valid."""


class DataError(UsageError):
    """Prompts are missing, in the wrong format, or too few for the slices."""


class ModelNotFoundError(UsageError):
    """A target or drafter model is not on this machine and could not be fetched."""


class StudyMismatchError(UsageError):
    """A stored study was started with a different plan than the one given now."""


class StorageError(AsdSweepError):
    """The database cannot be used: locked, unreadable, or written by a newer version."""


class StudyLockedError(StorageError):
    """Another driver is running this study."""


class StudyNotFoundError(StorageError):
    """The storage holds no study of that name."""

    exit_code = 2


class EngineError(AsdSweepError):
    """The engine could not start, or failed while decoding."""


class EngineOutOfMemoryError(EngineError):
    """The engine did not fit the memory of its accelerator or machine."""


class CanaryError(EngineError):
    """The engine runs, but a check that must hold before measuring does not."""


class WorkerLostError(AsdSweepError):
    """A worker process died; the leg that was running is lost and can be repeated."""


class FreezeRefusedError(AsdSweepError):
    """Nothing was signed: there is no cell to freeze, or the evidence does not hold what an artifact would say."""


class SliceSpentError(FreezeRefusedError):
    """A set-aside slice, or some of its prompts, was spent on another cell or by another study."""


class ArtifactRefusedError(AsdSweepError):
    """An artifact, a key or a trust folder was refused; the message begins with the code of the refusal."""
