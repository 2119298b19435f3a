"""From a confirmed cell to the statement that is signed: controls, bindings, workload, slices, what a server needs.

Works on values that are given; reads no files and no database.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from studies.controls import Cell
from studies.errors import FreezeRefusedError
from studies.slices import EXEMPLARS, Problem, Slices
from studies.spec import StudySpec
from sweeper.artifact import fields, strict_json
from sweeper.artifact.frozen_controls import speculative_config as speculative_config_text
from sweeper.artifact.statements import (
    BINDINGS,
    ArtifactControls,
    FrozenControls,
    FrozenEvidence,
    SliceRef,
    StudyRef,
    Workload,
    decimal_text,
    time_text,
)
from sweeper.engine.drafters import speculative_config
from sweeper.engine.vllm_identity import name_of
from sweeper.version import version

LARGEST_BLOCK_CAP = 64
_NOT_BINDABLE = re.compile(r"[^A-Za-z0-9 ._:/+@(),=-]")
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9._+-]")


def artifact_controls(spec: StudySpec, cell: Cell) -> ArtifactControls:
    """The cell as an artifact writes it. A block cap without limit becomes K, which is as much as a block can hold.

    Raises FreezeRefusedError for a budget or gate without limit, or with more than six decimals.
    """
    controls = cell.controls
    if controls.is_strict:
        raise FreezeRefusedError("strict decoding needs no artifact; a server without one decodes strictly")
    return ArtifactControls(
        budget=_bounded(controls.budget, "budget"),
        gate=_bounded(controls.gate, "gate"),
        block_cap=cell.draft_length if controls.block_cap > LARGEST_BLOCK_CAP else int(controls.block_cap),
        draft_length=cell.draft_length,
        gate_unit=spec.space.gate_unit,
        protect_stop=spec.protocol.protect_stop,
    )


def check_writable(spec: StudySpec, cell: Cell) -> None:
    """Refuse a cell or a study that no artifact can hold before its prompts are spent. Raises as reading one does."""
    fields.read(ArtifactControls, fields.plain(artifact_controls(spec, cell)), "controls")
    serving = serving_of(spec, cell, {})
    speculative_config_text(serving["speculative_config"], "engine.drafter")
    fields.path_of_names(serving["model"], "engine.target")
    fields.path_of_names_or_none(serving["drafter"], "engine.drafter.model")


def bindings_of(engines: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], list[str]]:
    """(what the engines are by the names of BINDINGS, sorted names that could not be obtained).

    engines: facts of every engine process that decoded. Raises FreezeRefusedError when two of them differ.
    """
    tables = [dict(facts.get("identity") or {}) for facts in engines]
    if not tables:
        raise FreezeRefusedError("no engine of this measurement is on record; measure again under another name (--as)")
    for name in sorted({name for table in tables for name in table}):
        values = {table.get(name, "") for table in tables}
        if len(values) > 1:
            found = ", ".join(sorted(value or "unknown" for value in values))
            raise FreezeRefusedError(
                f"the engines that measured this cell differ in {name} ({found}); "
                "evidence of two different servers cannot be signed as one"
            )
    known = {name: _NOT_BINDABLE.sub("_", str(value))[:200] for name, value in tables[0].items() if name in BINDINGS}
    known = {name: value for name, value in known.items() if value}
    return dict(sorted(known.items())), sorted(set(BINDINGS) - set(known))


def workload_of(spec: StudySpec, *, workload: str, max_prompt_tokens: int) -> Workload:
    """What was decoded, as a server can tell it from its requests."""
    return Workload(
        id=workload,
        prompt_format=f"chat/{spec.data.few_shot}-shot",
        max_prompt_tokens=max_prompt_tokens,
        max_new_tokens=spec.protocol.natural_eos_tokens,
    )


def slices_of(slices: Slices) -> dict[str, SliceRef]:
    """Every set of prompts of the study, worked examples included, that holds any."""
    members = {EXEMPLARS: slices.exemplars, **slices.by_name}
    return {name: slice_ref(problems) for name, problems in members.items() if problems}


def slice_ref(problems: Iterable[Problem]) -> SliceRef:
    """How many prompts, and the sha256 over the sorted sha256 of each question."""
    digests = sorted(hashlib.sha256(problem.question.encode("utf-8")).hexdigest() for problem in problems)
    return SliceRef(len(digests), hashlib.sha256("".join(digests).encode("ascii")).hexdigest())


def serving_of(spec: StudySpec, cell: Cell, bindings: Mapping[str, str]) -> dict[str, str]:
    """What rebuilds the server's arguments; names of models, never folders of this machine."""
    drafter = spec.engine.drafter
    config = speculative_config(drafter, draft_length=cell.draft_length, model=None)
    try:
        config_text = strict_json.canonical(config, floats=True).decode("ascii")
    except ValueError as error:
        raise FreezeRefusedError(f"engine.drafter cannot be written into an artifact: {error}") from error
    return {
        "speculative_config": config_text,
        "dtype": spec.engine.dtype,
        "max_model_len": str(spec.engine.max_model_len),
        "model": _name(spec.engine.target),
        "drafter": "" if drafter.model is None else _name(drafter.model),
        "revision": bindings.get("target.revision", ""),
        "drafter_revision": bindings.get("drafter.revision", ""),
    }


def frozen_controls(
    spec: StudySpec,
    cell: Cell,
    *,
    trial: int,
    lineage: str,
    serial: int,
    supersedes: str,
    created: datetime,
    not_after: datetime,
    workload: Workload,
    slices: Slices,
    engines: Sequence[Mapping[str, Any]],
    evidence: FrozenEvidence,
) -> FrozenControls:
    """The statement. Raises FreezeRefusedError, and Refused where a reader would refuse it."""
    bindings, not_obtained = bindings_of(engines)
    return FrozenControls(
        controls=artifact_controls(spec, cell),
        study=StudyRef(spec.name, spec.plan_sha256(), trial),
        lineage=lineage,
        serial=serial,
        supersedes=supersedes,
        created=time_text(created),
        not_after=time_text(not_after),
        tool_version=version().replace(" ", "-"),
        bindings=bindings,
        not_obtained=not_obtained,
        workload=workload,
        serving=serving_of(spec, cell, bindings),
        slices=slices_of(slices),
        evidence=evidence,
    )


def _bounded(value: float, name: str) -> str:
    if math.isinf(value):
        raise FreezeRefusedError(
            f"a cell without a limit on the {name} is not frozen: its losses have no bound; choose one with a number"
        )
    written = decimal_text(value)
    if Decimal(written) != Decimal(repr(value)):
        raise FreezeRefusedError(
            f"the {name} {value!r} has more decimals than an artifact writes (six); choose another"
        )
    return written


def _name(model: str) -> str:
    return "/".join(_NOT_A_NAME.sub("-", part) for part in name_of(model).split("/"))
