"""Find where a cleaned generation marks its answer: ``####``, a box, an answer tag, "the answer is", "Answer:".

Knows nothing of values; ``verdict.py`` reads the segments.
"""

import re
from dataclasses import dataclass

from sweeper.measure.grading.text import CLOSE, OPEN
from sweeper.measure.grading.vocabulary import words_of

_HASHES = re.compile(r"#{4,}[ \t]*")
_HEADING = re.compile(
    r"(?:step|part|solution|explanation|problem|question|method|approach|reasoning|analysis|case|given|calculation|"
    r"verification|check|example|note|answers?|final answers?|result)\b[^\d\n]{0,3}\d*[^\w\n]*(?:$|[:.)-])",
    re.I,
)
_NUMBERED = re.compile(r"(\d{1,2})[.)][ \t]+(?=[A-Za-z])")
_ANSWER_HEADING = re.compile(r"(?:the\s+)?(?:final\s+)?(?:answers?|result)\b[\s:=.-]*", re.I)
_BE = r"(?:is|was|are|will be|would be|should be|must be|equals|comes (?:out )?to|turns out to be)"
_PHRASE = re.compile(
    rf"""
    \banswer(?:\s+(?:to|for|of)\s+[^.:=\n]{{1,80}}?)?["'\s]*(?:,\s*(?:therefore|then|thus|so),?\s*)?
        (?:{_BE}\b(?!\s+(?:not\b(?!.{1, 20}\bbut\b)|incorrect|wrong|correct\b|right\b))(?:\s*:)?|[:=—]|-(?=\s))\s*
  | (?:^|(?<=\n))\s*(?:A|Ans|Answer)\s?[.:)]\s*(?=\S)
  | \bresult\s+{_BE}\s*:?\s*
  | (?:答案|答え|答|정답|答案为|答案是)\s*(?:是|为|は|은|:)+\s*
  | \b(?:die\s+)?antwort\b\s*(?:ist|lautet|:)+\s*
  | \b(?:respuesta|r[ée]ponse|risposta|resposta)\b(?:\s+(?:final|finale))?\s*(?:es|est|è|é|:)+\s*
  | \bответ\b\s*[:—-]?\s*
    """,
    re.VERBOSE | re.IGNORECASE,
)
# "the answer for May is 24": part of the way where the text goes on
_PARTIAL = re.compile(r"\banswer\s+(?:for|of|to)\s+(?!(?:the|this|your)\s+(?:question|problem|task)\b)", re.I)
_NEXT_PROBLEM = re.compile(
    r"(?:^|\n)[ \t]*(?:#+[ \t]*)?(?:(?:next|another|new)[ \t]+)?"
    r"(?:question|q|problem|exercise|user|human|student|instruction|example|task|input|prompt|问题|题目|问)"
    r"[ \t]*(?:#?\d+)?[ \t]*[:.)]"
    r"|\n[ \t]*(?:user|assistant|system|human)[ \t]*(?=\n)"  # a turn's name, its special tokens left out
    r"|\n#+[ \t]*(?:question|problem|exercise|example|task|input|instruction)s?\b",
    re.I,
)
_NEXT_INLINE = re.compile(r"(?<=[\d.%)])\s+(?:Question|Q|Problem|User|Human|Instruction)\s?\d*\s?:")
_LONGEST_PHRASE = 600  # characters
SENTENCE_END = re.compile(r"""[.!?…]+["')\]]*(?:\s+|$)(?=[^a-z]|$)""")
_ABBREVIATIONS = words_of(
    "rs mr mrs ms dr no st vs approx e.g i.e etc fig hr hrs min oz lb ft p.m a.m u.s incl excl max avg est sq cu"
)


@dataclass(frozen=True)
class Segment:
    """The text at [start, end) of a cleaned generation that an answer mark points to.

    strong: the mark is a format of its own (hashes, box, tag). closed: more text or a closing mark follows, so that
    nothing of the segment can be cut off.
    """

    text: str
    start: int
    end: int
    strong: bool
    closed: bool


def before_next_problem(text: str) -> tuple[str, str]:
    """The text up to where the model goes on with a problem of its own making, and the rest."""
    for pattern in (_NEXT_PROBLEM, _NEXT_INLINE):
        for match in pattern.finditer(text):
            if re.search(r"\d", text[: match.start()]):
                return text[: match.start()] + "\n", text[match.start() :]
    return text, ""


def marked_segments(text: str) -> list[Segment]:
    """All marked segments in the order of the text."""
    found = [*_hashed(text), *_enclosed(text), *_phrased(text)]
    return sorted(found, key=lambda segment: segment.start)


def sentences(text: str) -> list[tuple[int, int]]:
    """[start, end) of the sentences and lines of a text, blank ones left out."""
    spans: list[tuple[int, int]] = []
    for line in re.finditer(r"[^\n]+", text):
        start = line.start()
        for end in _sentence_ends(line[0]):
            spans.append((start, line.start() + end))
            start = line.start() + end
        spans.append((start, line.end()))
    return [(start, end) for start, end in spans if text[start:end].strip()]


def _sentence_ends(line: str) -> list[int]:
    ends: list[int] = []
    for match in SENTENCE_END.finditer(line):
        before = line[: match.start()]
        if before.count("(") > before.count(")") and ")" in line[match.end() :]:
            continue  # inside a remark: "(incl. 5% tax)"
        word = re.search(r"[A-Za-z.]+$", line[: match.start()])
        if not (word and word[0].lower() in _ABBREVIATIONS):
            ends.append(match.end())
    return ends


def _hashed(text: str) -> list[Segment]:
    found: list[Segment] = []
    marks = list(_HASHES.finditer(text))
    numbers = [int(m[1]) for mark in marks if (m := _NUMBERED.match(text, mark.end()))]
    listed = numbers == list(range(1, len(numbers) + 1))  # "#### 1. Find May", "#### 2. Add" are headings
    for match in marks:
        start = match.end()
        end = _line_end(text, start)
        line = text[start:end]
        if listed and _NUMBERED.match(line):
            continue
        answer = _ANSWER_HEADING.match(line)
        if answer:
            start += answer.end()
        elif _HEADING.match(line):
            continue
        if not text[start:end].strip(" :*"):
            start, end = _next_line(text, end)
        cut = text.find("####", start, end)
        end = cut if cut >= 0 else end
        found.append(Segment(text[start:end], start, end, strong=True, closed=end < len(text)))
    return found


def _enclosed(text: str) -> list[Segment]:
    found: list[Segment] = []
    for match in re.finditer(f"{OPEN}([^{OPEN}{CLOSE}]*)({CLOSE}?)", text):
        found.append(Segment(match[1], match.start(1), match.end(), strong=True, closed=bool(match[2])))
    return found


def _phrased(text: str) -> list[Segment]:
    found: list[Segment] = []
    for match in _PHRASE.finditer(text):
        start = match.end()
        end = _line_end(text, start)
        if not text[start:end].strip(" :*."):
            start, end = _next_line(text, end)
        if end - start > _LONGEST_PHRASE:  # a loop of "the answer is" in one line
            end = max(text.rfind(" ", start, start + _LONGEST_PHRASE), start)
        ends = _sentence_ends(text[start:end])
        inner = ends[0] if ends and text[start : start + ends[0]].strip(" .!?") else end - start
        closed = start + inner < len(text) and not _PARTIAL.match(match[0])
        found.append(Segment(text[start : start + inner], start, start + inner, strong=False, closed=closed))
    return found


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _next_line(text: str, end: int) -> tuple[int, int]:
    """[start, end) of the next line that is not blank."""
    match = re.compile(r"\s*").match(text, end)
    start = match.end() if match else end
    return start, _line_end(text, start)
