"""Every mistake in a study file becomes one line: where, what is wrong, what to do."""

import pytest

from studies.errors import SpecError
from studies.spec_file import load_spec

VALID = """\
name: mine
space:
  budget: [0, 8]
  gate: [0.25]
  block_cap: [2]
  draft_length: [4]
"""


def problem(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(text, origin="mine.yaml")
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("addition", "expected"),
    [
        ("sampler:\n  n_trails: 3\n", "line 8: unknown key `n_trails` in sampler; did you mean `trials`?"),
        ("protocl:\n  clock: cpu\n", "line 7: unknown key `protocl` at the top level; did you mean `protocol`?"),
        ("engine:\n  drafter:\n    modle: x\n", "line 9: unknown key `modle` in engine.drafter; did you mean `model`?"),
        ("triplets: 3\n", "line 7: unknown key `triplets` at the top level; `triplets` belongs in protocol"),
        ("seed: 3\n", "line 7: unknown key `seed` at the top level; `seed` belongs in data or in sampler"),
        ("data:\n  qualty: 3\n", "line 8: unknown key `qualty` in data; did you mean `quality` in data.slices?"),
        (
            "sampler:\n  xyzzy: 3\n",
            "line 8: unknown key `xyzzy` in sampler; the keys there are name, trials, seed",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_valid_one(addition: str, expected: str) -> None:
    assert problem(VALID + addition) == f"mine.yaml {expected}"


def test_the_symbols_of_the_paper_are_answered_with_their_names_here() -> None:
    message = problem("name: mine\nspace:\n  B: [0]\n  gate: [1]\n  block_cap: [1]\n  draft_length: [4]\n")
    assert message.startswith("mine.yaml line 3: unknown key `B` in space; did you mean `budget`?")


def test_a_misspelt_key_is_named_before_the_key_it_leaves_missing() -> None:
    message = problem(VALID.replace("budget", "budgets"))
    assert message == "mine.yaml line 3: unknown key `budgets` in space; did you mean `budget`? (and 1 more problem)"


@pytest.mark.parametrize(
    ("addition", "expected"),
    [
        ("sampler:\n  trials: 3.5\n", "line 8: `trials` in sampler must be a whole number, got 3.5"),
        ("sampler:\n  trials: '3'\n", "line 8: `trials` in sampler must be a whole number, got '3'; remove the quotes"),
        ("protocol:\n  triplets: true\n", "line 8: `triplets` in protocol must be a whole number, got true"),
        ("protocol:\n  margin_pp: much\n", "line 8: `margin_pp` in protocol must be a number, got 'much'"),
        ("engine:\n  enforce_eager: 1\n", "line 8: `enforce_eager` in engine must be true or false, got 1"),
        ("description: 5\n", "line 7: `description` must be text, got 5; put it in quotes"),
        ("engine: vllm\n", "line 7: `engine` must be a section of keys, got 'vllm'"),
        ("engine:\n", "line 7: `engine` must be a section of keys, got nothing; give its keys below it or remove it"),
        ("engine:\n  extra: 3\n", "line 8: `extra` in engine must be a section of keys, got 3"),
        ("workers:\n  count: some\n", "line 8: `count` in workers must be a whole number or 'auto', got 'some'"),
        (
            "protocol:\n  opportunity:\n    suffix_lengths: 1\n",
            "line 9: `suffix_lengths` in protocol.opportunity must be a list, got 1; "
            "write it in brackets, as in [0, 8]",
        ),
        (
            "protocol:\n  opportunity:\n    suffix_lengths:\n    - 1\n    - a\n",
            "line 11: item 2 of `suffix_lengths` in protocol.opportunity must be a whole number, got 'a'",
        ),
    ],
)
def test_a_wrong_type_is_refused_with_what_was_expected(addition: str, expected: str) -> None:
    assert problem(VALID + addition) == f"mine.yaml {expected}"


@pytest.mark.parametrize(
    ("addition", "expected"),
    [
        ("sampler:\n  trials: 0\n", "line 8: `trials` in sampler must be at least 1, got 0"),
        ("data:\n  level: 6\n", "line 8: `level` in data must be at most 5, got 6"),
        ("data:\n  seed: -1\n", "line 8: `seed` in data must be at least 0, got -1"),
        ("protocol:\n  drift_limit_pct: 0\n", "line 8: `drift_limit_pct` in protocol must be more than 0, got 0"),
        ("protocol:\n  clock: sun\n", "line 8: `clock` in protocol must be 'wall' or 'cpu', got 'sun'"),
        ("engine:\n  kv_cache_gib: .inf\n", "line 8: `kv_cache_gib` in engine must be a finite number, got inf"),
        ("workers:\n  count: 0\n", "line 8: `count` in workers must be at least 1 or 'auto', got 0"),
        ("protocol:\n  max_attempts: 3\n", "line 7: `protocol`: max_attempts (3) must be at least triplets (8)"),
        (
            "engine:\n  drafter:\n    method: dspark\n",
            "line 8: `drafter` in engine: method dspark needs a drafter model; add drafter.model",
        ),
        (
            "engine:\n  extra:\n    a: .inf\n",
            "line 8: `extra` in engine: values must be such that JSON can carry them; infinity cannot",
        ),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(addition: str, expected: str) -> None:
    assert problem(VALID + addition) == f"mine.yaml {expected}"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: mine", "name: -x", "line 1: `name` must start with a letter or digit"),
        ("[0.25]", "[]", "line 4: `gate` in space must hold at least 1 value, got an empty list"),
        ("[4]", "[4, 70]", "line 6: item 2 of `draft_length` in space must be at most 64, got 70"),
        ("[0, 8]", "[0, -8]", "line 3: item 2 of `budget` in space: a control must be a number of at least 0"),
        ("[2]", "[1.5]", "line 5: item 1 of `block_cap` in space: a block cap must be a whole number"),
        ("[0, 8]", "8", "line 3: `budget` in space must be a list, got 8; write it in brackets, as in [0, 8]"),
    ],
)
def test_a_wrong_space_or_name_is_refused(old: str, new: str, expected: str) -> None:
    assert problem(VALID.replace(old, new)).startswith(f"mine.yaml {expected}")


def test_a_missing_key_is_named_with_its_meaning_and_the_line_of_its_section() -> None:
    message = problem(VALID.replace("  budget: [0, 8]\n", ""))
    assert message == "mine.yaml line 2: `budget` is missing in space; add it (B, nats per request; 0 is strict)"


def test_a_missing_section_is_named() -> None:
    assert problem("name: mine\n") == "mine.yaml line 1: `space` is missing; add it"


def test_several_problems_are_counted_and_the_first_line_is_told() -> None:
    message = problem(VALID + "protocol:\n  clock: sun\n  triplets: 0\ndata:\n  level: 9\n")
    assert message.startswith("mine.yaml line 8: `clock`")
    assert message.endswith("(and 2 more problems)")


def test_control_characters_of_the_file_do_not_reach_the_message() -> None:
    assert "`a\\nb\\x1b`" in problem(VALID + '"a\\nb\\e": 3\n')


def test_a_space_of_too_many_cells_is_refused_at_its_line() -> None:
    values = ", ".join(map(str, range(1, 200)))
    message = problem(VALID.replace("[0, 8]", f"[{values}]").replace("[0.25]", f"[{values}]"))
    assert message == "mine.yaml line 2: the space has 39601 cells, at most 10000 can be studied; shorten its lists"
