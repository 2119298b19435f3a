"""How numbers are written."""

import pytest

from dashboards.wording import bracketed, controls_text, counted, duration, plus_minus, signed


@pytest.mark.parametrize(("value", "text"), [(1.25, "+1.2"), (-0.04, "0.0"), (0.0, "0.0"), (-3.0, "-3.0"), (None, "-")])
def test_a_change_has_its_sign_and_zero_has_none(value, text):
    assert signed(value) == text


def test_an_interval_of_one_value_is_that_value():
    alone = {"mean": 2.0, "lo": None, "hi": None, "n": 1}
    assert (plus_minus(alone), bracketed(alone)) == ("+2.0", "+2.0")


def test_a_missing_interval_is_a_dash():
    none = {"mean": None, "lo": None, "hi": None, "n": 0}
    assert (plus_minus(none), bracketed(none)) == ("-", "-")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5300, "88 min"), (7500, "2 h 05 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_any_control_of_zero_is_strict():
    assert controls_text({"budget": 8, "gate": 0, "block_cap": "inf"}) == "strict"
    assert controls_text({"budget": "inf", "gate": 0.25, "block_cap": 2}) == "inf, 0.25, 2"


def test_a_number_of_one_has_a_noun_in_the_singular():
    assert [counted(n, "draft length") for n in (0, 1, 2)] == ["0 draft lengths", "1 draft length", "2 draft lengths"]
