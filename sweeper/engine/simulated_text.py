"""The simulated target's vocabulary: what each token id says, and the text of a sequence of ids.

Id 0 ends the text, id 1 is the mark ``####`` before the answer, then one id for each printable character (answers
are spelt with them), then words.
"""

from collections.abc import Sequence

END, MARK, FIRST_CHARACTER = 0, 1, 2
_CHARACTERS = [chr(code) for code in range(32, 127)]
FIRST_WORD = FIRST_CHARACTER + len(_CHARACTERS)
_WORDS = """
    a add all altogether and apples are ask at away bag begins boxes both buys by cards costs count day dollars
    double each eats equals every five four from gives half has he hours how in is leaves left less many more
    needs now of on one pencils per plus remain saves sells she so sold sum takes ten that the then there
    three times to total two week with
""".split()  # noqa: SIM905 -- a list of seventy quoted words is harder to read
VOCABULARY = FIRST_WORD + len(_WORDS)


def spell(answer: str) -> tuple[int, ...]:
    """Token ids that spell ``answer``; characters that cannot be printed are left out."""
    return tuple(FIRST_CHARACTER + ord(c) - 32 for c in answer if 32 <= ord(c) < 127)


def text_of(token_ids: Sequence[int]) -> str:
    """The text of output tokens; words are separated by spaces, the answer stands on a line of its own."""
    pieces: list[str] = []
    for token in token_ids:
        if token == END:
            continue
        if token == MARK:
            pieces.append("\n#### ")
        elif token < FIRST_WORD:
            pieces.append(_CHARACTERS[token - FIRST_CHARACTER])
        else:
            pieces.append(_WORDS[token - FIRST_WORD] + " ")
    return "".join(pieces).strip()


def count_words(prompt: str) -> int:
    """Tokens of a prompt as the simulated engine counts them: words between blanks, at least one."""
    return max(1, len(prompt.split()))


def render(messages: Sequence[dict[str, str]]) -> str:
    """Chat messages as the text the simulated target expects."""
    return "".join(f"[{m['role']}]\n{m['content']}\n" for m in messages) + "[assistant]\n"
