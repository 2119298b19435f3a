"""GSM8K's two filters of lm-evaluation-harness, by their published behaviour; reported beside our verdict, never it.

Knows nothing of finish reasons: both look at text alone, which is why a cut text can score by luck. Ours are
written from the task's description: "strict-match" takes the first ``#### number``, "flexible-extract" the last
thing that looks like a number, and both compare texts after dropping ``,``, ``$``, all up to ``#### `` and a last dot.
"""

import re

_STRICT = re.compile(r"#### (-?[0-9.,]+)")
_FLEXIBLE = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")
_DROPPED = tuple(re.compile(pattern) for pattern in (",", r"\$", r"(?s).*#### ", r"\.$"))


def strict_match(generation: str, gold: str) -> bool:
    """Whether the first ``#### number`` of the text is the gold."""
    match = _STRICT.search(generation)
    return match is not None and _compared(match[1]) == _compared(gold)


def flexible_extract(generation: str, gold: str) -> bool:
    """Whether the last number-like piece of the text is the gold."""
    pieces = _FLEXIBLE.findall(generation)
    return bool(pieces) and _compared(pieces[-1]) == _compared(gold)


def _compared(text: str) -> str:
    text = text.strip()
    for pattern in _DROPPED:
        text = pattern.sub("", text)
    return text.lower()
