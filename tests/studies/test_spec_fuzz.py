"""Whatever the text, reading it gives a study or a SpecError of one line, never another error."""

from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from studies.errors import SpecError
from studies.spec_file import load_preset, load_spec, preset_names, spec_to_json, spec_to_yaml

TEXTS = [spec_to_yaml(load_preset(name)) for name in preset_names()]
VALUES = [spec_to_json(load_preset(name)) for name in preset_names()]
SNIPPETS = [
    *(": ", "- ", "\n", "  ", "\t", "[", "]", "{", "}", "&a ", "*a", "!!int ", "'", '"', "#", "|", ">", "?", "<<: "),
    *("--- ", "... ", "%YAML 9.9\n", "\x00", "\ud800", "é", "null", "inf", ".nan", "-1", "1e400", "0x1F", "9" * 400),
]

FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check(text: str) -> None:
    try:
        spec = load_spec(text, origin="fuzz.yaml")
    except SpecError as error:
        refusal = str(error)
    else:
        assert load_spec(spec_to_yaml(spec), origin="again") == spec
        return
    assert refusal.startswith("fuzz.yaml")
    assert refusal.isprintable()


@FUZZ
@given(st.data())
def test_mutated_text_gives_a_study_or_one_line(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 40)))
        text = text[:start] + data.draw(st.sampled_from(SNIPPETS) | st.text(max_size=5)) + text[end:]
    check(text)


leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(["inf", [], {}])
)
anything = st.recursive(leaves, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3))


@FUZZ
@given(st.data())
def test_mutated_values_give_a_study_or_one_line(data: st.DataObject) -> None:
    value = yaml.safe_load(yaml.safe_dump(data.draw(st.sampled_from(VALUES))))
    for _ in range(data.draw(st.integers(1, 3))):
        place: Any = value
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = data.draw(st.sampled_from(keys))
            if isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans()):
                place = place[key]
                continue
            break
        match data.draw(st.sampled_from(["replace", "drop", "rename"])):
            case "drop" if len(place) > 1:
                del place[key]
            case "rename" if isinstance(place, dict):
                place[data.draw(st.text(max_size=8))] = place.pop(key)
            case _:
                place[key] = data.draw(anything)
    check(yaml.safe_dump(value, allow_unicode=True))


@FUZZ
@given(st.text(max_size=60) | st.lists(st.sampled_from(SNIPPETS), max_size=25).map("".join))
def test_any_text_gives_a_study_or_one_line(text: str) -> None:
    check(text)
