"""Bring a generation into one way of writing: plain digits, signs, spaces, no markup; cut where the turn ended.

Knows nothing of which number is the answer. Boxes and answer tags become OPEN ... CLOSE, so that they survive.
"""

import re
import unicodedata
from dataclasses import dataclass

OPEN = "\ue000"  # opens a \boxed{} or <answer>
CLOSE = "\ue001"
MINUS = "\u2212"  # kept for a sign that cannot be a hyphen

_TURN_END = re.compile(
    r"<\|(?:im_end|eot_id|endoftext|end|end_of_text|end_of_turn|eom_id|return|im_start|start_header_id|user|system)\|>"
    r"|</s>|<end_of_turn>|<start_of_turn>|<eos>|\[/?INST\]"
)
_TOKEN = re.compile(r"<\|[\w ]{1,40}\|>|<s>|<bos>|<pad>|\[PAD\]")
_THOUGHT = re.compile(r"<(think|thinking|thought|reasoning|scratchpad)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|thought|reasoning|scratchpad)>", re.IGNORECASE)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("，、", ", "),
        "。": ". ",
        "；": "; ",
        **dict.fromkeys("‘’ʼ‛´′", "'"),
        **dict.fromkeys("“”„«»″", '"'),
        "٬": ",",
        "٫": ".",
        "‐": "-",
        "‑": "-",
        "﹣": MINUS,
        "－": MINUS,
        **dict.fromkeys("×✕✖⨯·⋅∙∗", "*"),
        "÷": "/",
        "∕": "/",
        **dict.fromkeys("→⇒⟹≈≃≅≡", "="),
        "°": " degrees ",
        "~": " ",
    }
)
_LATEX_WORDS = (
    (r"\\(?:times|cdot|ast)(?![a-zA-Z])", "*"),
    (r"\\div(?![a-zA-Z])", "/"),
    (r"\\(?:approx|simeq|Rightarrow|rightarrow|implies|to|equiv|longrightarrow)(?![a-zA-Z])", "="),
    (r"\^\s*\{?\s*\\circ\s*\}?", " degrees "),
    (r"\\(?:left|right|displaystyle|bigl?|bigr?|Bigl?|Bigr?|quad|qquad|limits|boldsymbol)(?![a-zA-Z])", " "),
    (r"\\(?:begin|end)\{[^{}]*\}", "\n"),
    (r"\\(?:pounds|euro)(?![a-zA-Z])", "£"),
    (r"\{,\}|\\!", lambda m: "," if m[0] == "{,}" else ""),
    (r"\\[,;: ]", " "),
    (r"\\([%$#_&])", r"\1"),
    (r"\\[()]", " "),
    (r"\\[\[\]]", "\n"),
)
_LATEX = tuple((re.compile(pattern), new) for pattern, new in _LATEX_WORDS)
_STYLED = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|operatorname|emph|bm|mbox)\s*\{([^{}]*)\}"
)
_FRACTION = re.compile(r"(\d?)\s*\\[dtc]?frac\s*(?:\{([^{}]*)\}\s*\{([^{}]*)\}|(\d)\s*(\d))")
_BOX = re.compile(r"\\?\\(?:boxed|fbox|framebox)\s*")


@dataclass(frozen=True)
class CleanText:
    """text: what is left. ended: an end-of-turn token was seen, so the text is whole whatever the engine reports."""

    text: str
    ended: bool


def clean(generation: str) -> CleanText:
    """Normalise digits, signs, spaces and quotes; take out thoughts, tokens, annotations, LaTeX and markdown."""
    text, ended = own_turn(generation)
    text = re.sub(r"~~[^~\n]+~~", " ", text)  # struck out
    text = re.sub(r"<<[^<>\n]*>>", "", text)
    text = re.sub(r"<<[^<>\n]*\Z", "", text)
    text = re.sub(r"(\d{64})\d+", r"\1", text)  # no number is that long, and reading one takes time
    text = _boxes(text)
    text = _plain_characters(text)
    text = _without_latex(text)
    return CleanText(_without_markdown(text), ended)


def without_thoughts(text: str) -> str:
    """The text without what the model thought aloud between <think> and </think>; an open thought takes the rest."""
    text = _THOUGHT.sub(" ", text)
    ends = [match.end() for match in _THOUGHT_END.finditer(text)]
    return text[ends[-1] :] if ends else text


def own_turn(text: str) -> tuple[str, bool]:
    """The model's own turn without its thoughts, and whether a token said that it ended."""
    text = without_thoughts(text.lstrip())
    start = 0
    while (end := _TURN_END.search(text, start)) is not None:
        if text[start : end.start()].strip():
            return _TOKEN.sub(" ", text[start : end.start()]), True
        start = end.end()
    return _TOKEN.sub(" ", text[start:]), False


def _boxes(text: str) -> str:
    r"""``\boxed{...}`` (balanced) and ``<answer>...</answer>`` as OPEN ... CLOSE; an unclosed one stays open."""
    text = re.sub(r"<\s*(?:final_?)?answer\s*>", OPEN, text, flags=re.IGNORECASE)
    text = re.sub(r"<\s*/\s*(?:final_?)?answer\s*>", CLOSE, text, flags=re.IGNORECASE)
    pieces: list[str] = []
    position = 0
    while (match := _BOX.search(text, position)) is not None:
        pieces.append(text[position : match.start()])
        position = match.end()
        if not text.startswith("{", position):
            bare = re.compile(r"[-\d.,]+").match(text, position)
            pieces.append(f"{OPEN}{bare[0]}{CLOSE}" if bare else " ")
            position = bare.end() if bare else position
            continue
        depth, end = 0, position
        for end in range(position, len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if depth == 0:
                break
        inner = text[position + 1 : end] if depth == 0 else text[position + 1 :]
        inner = re.sub(r"(?<=[\d)])!", r"\\factorial ", inner)  # elsewhere it is an exclamation
        pieces.append(OPEN + inner + (CLOSE if depth == 0 else ""))
        position = end + 1 if depth == 0 else len(text)
    return "".join(pieces) + text[position:]


def _plain_characters(text: str) -> str:
    text = re.sub(r"(?<=\d)，(?=\d{3}(?!\d))", ",", text)
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda m: f"^({m[0].translate(_SUPERSCRIPTS)})", text)
    text = re.sub(r"(?<=\d)(?=[₀-₉])", ":", text)  # a number in another base: no value here, as for a ratio
    text = re.sub(r"(\d?)([¼-¾⅐-⅞])", lambda m: f"{m[1]} {unicodedata.normalize('NFKC', m[2])}", text)
    text = unicodedata.normalize("NFKC", text.translate(_PLAIN)).translate(_PLAIN).replace("\u2044", "/")
    characters = (
        str(unicodedata.digit(c)) if c.isdigit() and not c.isascii() else "" if unicodedata.category(c) == "Cf" else c
        for c in text
    )
    text = "".join(characters).replace("\r\n", "\n")
    text = re.sub(r"(?<=#)([ \t]*)[–—][ \t]*(?=[\d$€£.])", r"\1- ", text)
    text = re.sub(r"(?<=\d)–(?=\d)", "-", text)
    text = re.sub(r"(?<![\w)])–(?=[\d$€£.])", MINUS, text)
    return text.replace("=>", "=").replace("->", "=").replace("==", "=")


def _without_latex(text: str) -> str:
    text = re.sub(r"\\\\(?=[a-zA-Z])", lambda _: "\\", text).replace("\\\\", "\n")
    text = re.sub(r"\$\$", " ", text)
    for pattern, new in _LATEX:
        text = pattern.sub(new, text)
    for _ in range(4):  # nested styles and fractions, from the inside out
        text = _STYLED.sub(r" \1 ", text)
        text = _FRACTION.sub(_slashed, text)
    text = re.sub(r"\s*\^\s*\{([^{}]*)\}", r"^(\1)", text)
    text = re.sub(r"(?<=[A-Za-z]) +\^(?=\d)", "^", text)
    # $...$ around mathematics, but not two prices in one line
    text = re.sub(r"(?<![\w$])\$([^$\n]{1,200}?)\$(?![\d$])", r" \1 ", text)
    return re.sub(r"(?<=\d)\{(\d{3})\}", r"\1", text)


def _slashed(match: re.Match[str]) -> str:
    before, top, bottom = match[1], match[2] or match[4], match[3] or match[5]
    if before:  # a mixed number
        return f"{before} {top}/{bottom}"
    simple = re.fullmatch(r"\s*\d+\s*", top) and re.fullmatch(r"\s*\d+\s*", bottom)
    return f"({top}/{bottom})" if simple else f"(({top})/({bottom}))"


def _without_markdown(text: str) -> str:
    text = re.sub(r"```[\w+-]*", "\n", text).replace("`", "")
    text = text.replace("**", "").replace("__", "")
    text = re.sub(r"(?<![\w*])\*(?=[^\s*])([^*\n]{1,80}?)(?<=[^\s*])\*(?![\w*])", r"\1", text)
    text = re.sub(r"<(?:br|hr|p)\s*/?>", "\n", text, flags=re.IGNORECASE)
    text = re.sub(r"</?[a-zA-Z][^<>\n]{0,40}>", " ", text)
    text = re.sub(r"^[ \t]*>[ \t]+", "", text, flags=re.MULTILINE)
    return re.sub(r"[ \t\f\v]+", " ", text)
