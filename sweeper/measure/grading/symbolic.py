r"""Ask math-verify about an answer our own reader cannot read, such as ``\sqrt{144}``.

Runs without math-verify's alarm signal, so that it works in a thread; what is handed over is kept small instead.
"""

import logging
import re

# it warns at every call without an alarm, and logs what it cannot parse
logging.getLogger("math_verify").setLevel(logging.CRITICAL)

_MAX_CHARACTERS = 120
_MAX_DIGITS = 30
_COSTLY = re.compile(r"!|\\factorial|\^\s*\{?\s*\(?\s*\d{3,}|\^[^^]*\^|\\(?:sum|prod|int|lim|binom)(?![a-zA-Z])")


def symbolically_equal(segment: str, gold: str) -> bool | None:
    """Whether math-verify finds ``segment`` equal to ``gold``; None when it is not asked or cannot read it.

    A power of a power, a long exponent, a factorial and long texts are never handed over: they can take seconds.
    """
    if len(segment) > _MAX_CHARACTERS or len(re.findall(r"\d", segment)) > _MAX_DIGITS or _COSTLY.search(segment):
        return None
    from math_verify import parse, verify  # brings sympy: only when it is needed

    try:
        answers = parse(f"${segment.strip()}$", parsing_timeout=0)
        if not answers:
            return None
        return bool(verify(parse(f"${gold}$", parsing_timeout=0), answers, timeout_seconds=0))
    except Exception:  # sympy and the LaTeX parser raise whatever they like; no verdict is the honest one
        return None
