"""When a run ends: what --deadline and --until may say."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from studies.errors import UsageError
from studies.limits import RunLimits, parse_deadline, parse_until

NOW = datetime(2026, 12, 1, 21, 30, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("22:00", NOW.replace(hour=22, minute=0)),
        ("08:00", NOW.replace(day=2, hour=8, minute=0)),
        ("21:30", NOW.replace(day=2)),
        (" 2h30m ", NOW + timedelta(hours=2, minutes=30)),
        ("45m", NOW + timedelta(minutes=45)),
        ("90s", NOW + timedelta(seconds=90)),
        ("2026-12-24T08:00", datetime(2026, 12, 24, 8, tzinfo=NOW.tzinfo)),
        ("2026-12-24T08:00+00:00", datetime(2026, 12, 24, 8, tzinfo=UTC)),
    ],
)
def test_a_deadline_is_a_time_of_day_a_length_or_a_moment(text: str, moment: datetime) -> None:
    assert parse_deadline(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "25:00", "8", "soon", "2h30", "h", "-5m", "12:60", "m5", "\x00", "9" * 400])
def test_what_is_none_of_them_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"--deadline must be a time of day such as 08:00") as caught:
        parse_deadline(text, NOW)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["2026-12-01T21:30", "2020-01-01", "0h"])
def test_a_moment_that_has_passed_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"has passed|leaves no time"):
        parse_deadline(text, NOW)


@pytest.mark.parametrize(
    ("text", "width"), [("half-width<=0.5", 0.5), (" half-width < 2 ", 2.0), ("half-width<=.25", 0.25)]
)
def test_until_takes_a_half_width_in_points(text: str, width: float) -> None:
    assert parse_until(text) == RunLimits(half_width_pp=width)


def test_until_takes_the_frontier_to_be_stable() -> None:
    assert parse_until(" stable ") == RunLimits(stable=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0.5",
        "half-width=0.5",
        "half-width>=1",
        "half-width<=0",
        "width<=1",
        "half-width<=x",
        "stable<=1",
        "unstable",
    ],
)
def test_another_rule_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(UsageError, match='--until must be "stable", or "half-width<=X"'):
        parse_until(text)
