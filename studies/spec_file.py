"""Study files: from a file, a preset's name or a text to a ``StudySpec``, or one clear line of SpecError.

Knows nothing of the command line. The schema is ``studies/spec.py``, the YAML is ``studies/spec_yaml.py``.
"""

import difflib
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from studies.controls import number_to_json
from studies.errors import SpecError
from studies.space import size_problem
from studies.spec import StudySpec
from studies.spec_errors import explain, show
from studies.spec_yaml import MAX_BYTES, read_yaml, write_yaml

SUFFIXES = (".yaml", ".yml", ".json")


def load_spec(text: str, *, origin: str) -> StudySpec:
    """Read a study from YAML text; ``origin`` names the text in messages, such as "quickstart.yaml".

    Values are taken as they are written: "4" is text, not a number. Infinity is ``.inf`` or ``inf``.
    Raises SpecError: one line with the origin, the line number, what is wrong and what to do.
    """
    origin = show(origin)
    document = read_yaml(text, origin=origin)
    try:
        spec = StudySpec.model_validate(document.value, strict=True)
    except ValidationError as error:
        raise SpecError(explain(error, document, origin=origin)) from error
    problem = size_problem(spec.space)
    if problem is not None:
        raise SpecError(f"{origin} line {document.line(('space',))}: {problem}")
    return spec


def load_spec_file(path: str | Path) -> StudySpec:
    """Read a study file (UTF-8 YAML). Raises SpecError when it is missing, not text, too large or not valid."""
    origin = show(str(path))
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise SpecError(f"no study file {origin}; the presets are {', '.join(preset_names())}") from error
    except IsADirectoryError as error:
        raise SpecError(f"{origin} is a folder; name the study file in it") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError(f"cannot read the study file {origin}: {reason}") from error
    if len(data) > MAX_BYTES:
        raise SpecError(f"{origin} is too large for a study file (at most {MAX_BYTES // 1024} KiB)")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"{origin} is not UTF-8 text (byte {error.start}); a study file is YAML, saved as UTF-8"
        ) from error
    return load_spec(text, origin=origin)


def load_preset(name: str) -> StudySpec:
    """Read a study that comes with asd-sweep. Raises SpecError naming the presets when there is none so called."""
    names = preset_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise SpecError(
            f"no preset {name!r}{hint}; the presets are {', '.join(names)}; for a study file give its path"
            " (such as ./mine.yaml)"
        )
    text = resources.files("studies").joinpath("presets", f"{name}.yaml").read_text(encoding="utf-8")
    return load_spec(text, origin=f"preset {name}.yaml")


def preset_names() -> tuple[str, ...]:
    """Names of the studies that come with asd-sweep, sorted."""
    folder = resources.files("studies").joinpath("presets")
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def load_study(name_or_path: str) -> StudySpec:
    """Read what a person names on the command line: a preset, or the path of a study file.

    A name with a folder ("./mine") or one of SUFFIXES is a path; any other is a preset's.
    Raises SpecError as the functions above.
    """
    path = Path(name_or_path)
    is_path = path.suffix.lower() in SUFFIXES or path.name != name_or_path
    return load_spec_file(name_or_path) if is_path else load_preset(name_or_path)


def spec_to_json(spec: StudySpec) -> dict[str, Any]:
    """All settings of ``spec``, defaults included, as values of strict JSON (infinity is "inf").

    ``load_spec(json.dumps(spec_to_json(spec)), origin=...)`` gives an equal study back.
    """
    plain: dict[str, Any] = _plain(spec.model_dump())
    return plain


def spec_to_yaml(spec: StudySpec) -> str:
    """All settings of ``spec``, defaults included, as a study file that reads back to an equal study."""
    return write_yaml(spec_to_json(spec))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return number_to_json(value) if isinstance(value, float) else value
