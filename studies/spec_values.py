"""The kinds of values a study file holds, and what all its sections have in common."""

import json
import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from studies.controls import number_from_json


def _control(value: Any) -> float:
    try:
        return number_from_json(value, name="a control")
    except Exception as error:  # pydantic only understands ValueError
        raise ValueError(str(error)) from error


def _whole(value: float) -> float:
    if math.isfinite(value) and not value.is_integer():
        raise ValueError(f'a block cap must be a whole number or "inf", got {value}')
    return value


def _json_values(value: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError("values must be such that JSON can carry them; infinity cannot") from error
    return value


ControlValue = Annotated[float, Field(allow_inf_nan=True), BeforeValidator(_control)]
BlockCapValue = Annotated[ControlValue, AfterValidator(_whole)]
JsonValues = Annotated[dict[str, Any], AfterValidator(_json_values)]
SeedValue = Annotated[int, Field(ge=0, le=2**32 - 1)]


class Section(BaseModel):
    """Base of all sections: unknown keys are refused, infinity is for controls only, values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, ser_json_inf_nan="strings")
