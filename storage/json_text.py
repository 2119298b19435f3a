"""JSON as it goes into a column or a payload: strict, so that every other JSON reader can read it too."""

import json
import math
from typing import Any

from studies.errors import StorageError


def to_json_text(value: Any, *, what: str) -> str:
    """``value`` as strict JSON; ``what`` names it in the StorageError raised for NaN, infinity or foreign types."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise StorageError(f"cannot store {what}: {error}") from error


def without_infinities(value: Any) -> Any:
    """A copy in which every float that is not finite is None: an unknown half-width must not cost a trial."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: without_infinities(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_infinities(item) for item in value]
    return value
