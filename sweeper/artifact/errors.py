"""Refused: the one way this package says no, with one of the codes of ``codes``.

Knows nothing of what is checked. Messages are one line of printable ASCII whatever the rejected content was, so that
content cannot forge log lines or move a terminal's cursor.
"""

from typing import Any

from sweeper.artifact.codes import CODES, Explanation

__all__ = ["CODES", "Explanation", "Refused", "one_line", "shown"]

MESSAGE_LIMIT = 400  # characters
SHOWN_LIMIT = 80  # characters of rejected content in a message


def one_line(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """``text`` as printable ASCII on one line, other characters escaped, cut to ``limit`` characters."""
    escaped = "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in text[: limit + 1])
    return escaped if len(escaped) <= limit else escaped[: limit - 3] + "..."


def shown(value: Any) -> str:
    """Rejected content for a message: its ascii() form, cut short."""
    return one_line(ascii(value), SHOWN_LIMIT)


class Refused(Exception):
    """Something is not trusted. ``code`` is one of CODES; ``message`` is one line of printable ASCII."""

    def __init__(self, code: str, message: str) -> None:
        if code not in CODES:
            raise ValueError(f"{code!r} is no code of CODES")
        super().__init__(code, one_line(message))
        self.code = code
        self.message = one_line(message)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
