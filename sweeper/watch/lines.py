"""The line that a person reads for each window of a watch."""

from sweeper.watch.judge import ALARMS, Figure, Window
from sweeper.watch.loop import Event, Unreachable

_UNITS = {
    "accepted_length": "tokens/round",
    "exceptions_per_token": "exceptions/token",
    "regret_per_request": "nats/request",
}


def line(event: Event) -> str:
    """One line: time, verdict, traffic, figures with their bounds, and what is wrong."""
    at = event.at.strftime("%H:%M:%SZ")
    if isinstance(event, Unreachable):
        return f"{at} OUTSIDE  {event.message}"
    verdict = {"inside": "inside  ", "outside": "OUTSIDE ", "too-little-traffic": "-       "}[event.verdict]
    parts = [f"{at} {verdict} {_traffic(event)}", *(_figure(figure) for figure in event.figures)]
    parts += [f"{code}: {ALARMS[code]}" for code in (*event.alarms, *event.notes)]
    if event.verdict == "too-little-traffic":
        parts.append("too little traffic to judge")
    return "; ".join(parts)


def _traffic(window: Window) -> str:
    counts = window.counts
    strict = f", {counts['strict_requests']} strict" if counts["strict_requests"] else ""
    reasons = ", ".join(f"{reason} {count}" for reason, count in window.strict_reasons.items())
    told = f" ({reasons})" if reasons else ""
    return f"{counts['asd_requests']} requests under ASD{strict}{told}, mode {window.mode}"


def _figure(figure: Figure) -> str:
    if figure.value is None:
        return f"no {_UNITS[figure.name]}"
    text = f"{figure.value:.4g} {_UNITS[figure.name]}"
    if figure.bounds is None or figure.bounds.hi is None:
        return text
    if figure.bounds.lo is None:
        return f"{text} (at most {figure.bounds.hi:.4g})"
    return f"{text} ({figure.bounds.lo:.4g} to {figure.bounds.hi:.4g})"
