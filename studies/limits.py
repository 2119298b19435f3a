"""When a run ends before its plan does: at a time of day, or when the frontier is known well enough.

Knows nothing of drivers; texts in, values out. Limits are no part of a study's plan: a later start may give others.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from studies.errors import UsageError

_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_LASTING = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?")
_HALF_WIDTH = re.compile(r"half-width\s*<=?\s*(\d+(?:\.\d+)?|\.\d+)")


@dataclass(frozen=True)
class RunLimits:
    """deadline: no leg is begun after it. half_width_pp: repeats of a cell that can be on the frontier end when the
    95 % half-width of its gain is this many points; None leaves it to the plan. stable: no leg is begun once every cell
    was tried and the recommendation is stable (``recommendation.STABLE``).
    """

    deadline: datetime | None = None
    half_width_pp: float | None = None
    stable: bool = False


def parse_deadline(text: str, now: datetime) -> datetime:
    """The moment meant by "08:00" (the next such time on the clock of ``now``), "2h30m", or an ISO moment.

    now: aware. Raises UsageError for another form, and for a moment that has passed.
    """
    wanted = text.strip()
    if of_day := _OF_DAY.fullmatch(wanted):
        moment = now.replace(hour=int(of_day[1]), minute=int(of_day[2]), second=0, microsecond=0)
        return moment if moment > now else moment + timedelta(days=1)
    lasting = _LASTING.fullmatch(wanted)
    if wanted and lasting:
        hours, minutes, seconds = (int(part or 0) for part in lasting.groups())
        length = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if length <= timedelta(0):
            raise UsageError(f"--deadline {text} leaves no time; give some, such as 2h30m")
        return now + length
    try:
        moment = datetime.fromisoformat(wanted)
    except ValueError as error:
        raise UsageError(
            f"--deadline must be a time of day such as 08:00, a length such as 2h30m, or a moment such as "
            f"2026-12-01T08:00, got {ascii(text)[:60]}"
        ) from error
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)
    if moment <= now:
        raise UsageError(f"--deadline {text} has passed; give a moment to come")
    return moment


def parse_until(text: str) -> RunLimits:
    """ "half-width<=0.5", points of throughput gain, or "stable". Raises UsageError for another form."""
    if text.strip() == "stable":
        return RunLimits(stable=True)
    found = _HALF_WIDTH.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise UsageError(
            f'--until must be "stable", or "half-width<=X" with X points of throughput gain above 0, such as '
            f'"half-width<=0.5", got {ascii(text)[:60]}'
        )
    return RunLimits(half_width_pp=float(found[1]))
