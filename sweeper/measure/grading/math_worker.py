"""Compare answers by math-verify in a process of its own, so that a comparison that takes too long can be ended.

Reads one JSON object a line, {"gold", "text"}, and answers each with one, {"equal": true, false or null}; null means
that no answer could be read. Run as a module by ``latex.py``.
"""

import json
import logging
import os
import resource
import sys
from typing import Any

_MEMORY_BYTES = 4 * 2**30


def main() -> None:
    """Serve until standard input ends. Whatever libraries print goes to standard error."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    logging.disable(logging.CRITICAL)
    from math_verify import parse, verify  # brings sympy: a second or two

    def answer(gold: str, text: str) -> bool | None:
        try:
            found: Any = parse(text, parsing_timeout=0)
            if not found:
                return None
            return bool(verify(parse(f"${gold}$", parsing_timeout=0), found, timeout_seconds=0))
        except Exception:  # sympy and the LaTeX parser raise whatever they like; no verdict is the honest one
            return None

    answer("1", "$1$")  # the first comparison builds the parser
    channel.write("{}\n")
    channel.flush()
    for line in sys.stdin:
        asked = json.loads(line)
        channel.write(json.dumps({"equal": answer(asked["gold"], asked["text"])}) + "\n")
        channel.flush()


if __name__ == "__main__":
    main()
