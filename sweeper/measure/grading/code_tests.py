"""What a program that answers a code task is tested with.

Knows nothing of where tests come from (sweeper/measure/tasks) nor of how they are run (``code.py``).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class CodeTests:
    """What a program is tested with.

    stub: the beginning that a bare continuation continues, "" where the answer must be whole. entry_point: the
    function that is tested. checks: texts of Python, run one after the other behind the answer.
    """

    stub: str
    entry_point: str
    checks: tuple[str, ...]
