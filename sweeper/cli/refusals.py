"""What the artifact package refuses, as an error of the command line: "CODE: sentence", exit code 1.

Knows nothing of what is checked.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from studies.errors import ArtifactRefusedError
from sweeper.artifact.errors import Refused


@contextmanager
def refusals_as_errors() -> Iterator[None]:
    """Turn a Refused of the block into an ArtifactRefusedError, its code first; ``verify --explain CODE`` says more."""
    try:
        yield
    except Refused as refused:
        raise ArtifactRefusedError(str(refused)) from refused
