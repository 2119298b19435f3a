"""How long an artifact is valid: "90d", "12h", a day or a moment, as one moment in UTC."""

import re
from datetime import UTC, datetime, timedelta

from studies.errors import UsageError

_SPAN = re.compile(r"([1-9][0-9]{0,4})([dh])")
LONGEST = timedelta(days=3660)


def expiry(text: str, *, now: datetime) -> datetime:
    """The last moment of validity. now: with a time zone. Raises UsageError for anything unclear or in the past."""
    moment = _moment(text.strip(), now)
    if moment <= now:
        raise UsageError(f"--expires {text} is not in the future; give for example 90d, 12h or 2027-06-30")
    if moment - now > LONGEST:
        raise UsageError(f"--expires {text} is more than ten years away; nothing that was measured holds that long")
    return moment


def _moment(text: str, now: datetime) -> datetime:
    span = _SPAN.fullmatch(text)
    if span:
        count = int(span[1])
        return now + (timedelta(days=count) if span[2] == "d" else timedelta(hours=count))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--expires {text!r} is no time; give for example 90d, 12h or 2027-06-30") from error
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
