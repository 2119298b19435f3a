"""What the benchmarks' command lines share: whole numbers of at least 1, and errors of ours as one line."""

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from studies.errors import AsdSweepError


def positive(text: str) -> int:
    """A whole number of at least 1, as argparse wants it read."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")


def end_with(main: Callable[[], int]) -> NoReturn:
    """Exit as ``main`` says; what cannot be measured as asked is one line on standard error and exit code 2."""
    try:
        sys.exit(main())
    except AsdSweepError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
