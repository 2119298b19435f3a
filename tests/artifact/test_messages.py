"""What a refusal says, whatever was rejected: a code of ours and one line of printable ASCII."""

import pickle
from pathlib import Path

import pytest

from sweeper.artifact.errors import CODES, MESSAGE_LIMIT, Refused, one_line, shown
from sweeper.artifact.files import read_file

FORGED = [
    "x\n2026-12-10 INFO verified",
    "\r\x1b[2K\x1b[1Averified",
    "\u202everified",
    "\u2028verified",
    "vеrified",  # a Cyrillic letter
    "\ud800",
    "x" * 10_000,
]


@pytest.mark.attack(52)
@pytest.mark.parametrize("text", FORGED)
def test_rejected_text_cannot_forge_a_line(text: str) -> None:
    for message in (str(Refused("schema", f"got {text}")), str(Refused("schema", f"got {shown(text)}"))):
        assert message.isascii()
        assert message.isprintable()
        assert len(message) <= MESSAGE_LIMIT + len("schema: ")


@pytest.mark.attack(52)
def test_file_names_cannot_forge_a_line(tmp_path: Path) -> None:
    for text in FORGED[:5]:
        with pytest.raises(Refused) as refused:
            read_file(tmp_path / text)
        assert str(refused.value).isascii()
        assert str(refused.value).isprintable()


def test_long_text_is_cut_with_a_mark() -> None:
    assert one_line("x" * 50, 20) == "x" * 17 + "..."
    assert one_line("x" * 20, 20) == "x" * 20
    assert shown("é") == r"'\xe9'"


def test_a_refusal_keeps_code_and_message_across_processes() -> None:
    refused = pickle.loads(pickle.dumps(Refused("expired", "too late")))
    assert (refused.code, refused.message, str(refused)) == ("expired", "too late", "expired: too late")


def test_other_codes_do_not_exist() -> None:
    with pytest.raises(ValueError, match="no code"):
        Refused("whatever", "x")


def test_every_code_is_explained_in_plain_sentences() -> None:
    for code, explanation in CODES.items():
        assert code == code.lower()
        for sentence in (explanation.meaning, explanation.advice):
            assert sentence.isascii(), code
            assert sentence[0].isupper(), code
            assert sentence.endswith("."), code
