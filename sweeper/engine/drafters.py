"""Drafters: one row a method, what each needs, and how a study's drafter becomes vLLM's ``speculative_config``.

Reads a model's config.json, never its weights; knows nothing of how drafts are verified.
"""

import hashlib
import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from studies.errors import ModelNotFoundError
from studies.spec_engine import MODEL_OF_METHOD, DrafterSpec
from sweeper.engine.models import ResolvedModel, resolve_model

Runner = Literal["v1", "v2"]
BOTH: tuple[Runner, ...] = ("v1", "v2")


@dataclass(frozen=True)
class DrafterMethod:
    """One of vLLM's speculative methods.

    runners: vLLM's model runners that can draft with it and that a study may use. warm_length: runners on which the
    draft length of a running engine can be lowered with the cost of drafting lowered alike (vLLM 0.32.0); elsewhere
    it crashes, is ignored, or drafts the full length and throws the rest away. idles: whether it can be told to draft
    nothing for a while; where not, target-only legs throw its drafts away. shares_vocabulary: vocab_size of
    drafter and target must be equal. length_keys: keys of the drafter's config.json that bound K. module: a Python
    module vLLM needs for it. below: first vLLM version (major, minor) that no longer has it.
    """

    name: str
    runners: tuple[Runner, ...]
    warm_length: tuple[Runner, ...] = ()
    idles: bool = True
    shares_vocabulary: bool = False
    length_keys: tuple[str, ...] = ()
    module: str | None = None
    below: tuple[int, int] | None = None

    @property
    def model(self) -> Literal["none", "weights", "class", "either"]:
        """What ``drafter.model`` is for this method."""
        return MODEL_OF_METHOD[self.name]


METHODS = MappingProxyType(
    {
        row.name: row
        for row in (
            # V2 pads a short proposal with repeats of the last token, which the rule could then buy: V1 only
            DrafterMethod("ngram", ("v1",), warm_length=("v1",)),
            DrafterMethod("ngram_gpu", ("v2",)),
            DrafterMethod("suffix", ("v1",), idles=False, module="arctic_inference"),
            # V2 always drafts the engine's full length and masks the tail
            DrafterMethod("draft_model", BOTH, warm_length=("v1",), shares_vocabulary=True),
            DrafterMethod("eagle", BOTH, warm_length=BOTH, shares_vocabulary=True),
            DrafterMethod("eagle3", BOTH, warm_length=BOTH, shares_vocabulary=True),
            DrafterMethod("medusa", ("v1",), idles=False, length_keys=("num_heads", "medusa_num_heads"), below=(0, 33)),
            DrafterMethod("dspark", ("v2",), length_keys=("block_size", "dspark_block_size")),
            # V1 has a DFlash drafter too, but it ignores candidate heads and refuses mixed attention
            DrafterMethod("dflash", ("v2",), length_keys=("block_size",)),
            DrafterMethod("mtp", BOTH),
            DrafterMethod("custom_class", ("v1",), idles=False),
        )
    }
)

SUFFIX_DEFAULTS = MappingProxyType({"suffix_decoding_max_cached_requests": 0})
"""No tree of past responses: with one, a strict leg would teach the drafter what the ASD leg then proposes."""

_NOT_MEASURABLE = MappingProxyType(
    {
        "rejection_sample_method": ("standard", "the verifier stands on vLLM's standard rejection sampling"),
        "enable_adaptive_verification": (False, "the device would then choose how many drafts are verified"),
        "suffix_decoding_max_cached_requests": (0, "strict legs would feed the drafter of ASD legs"),
    }
)


def speculative_config(drafter: DrafterSpec, *, draft_length: int, model: Path | None) -> dict[str, Any]:
    """vLLM's ``speculative_config`` for a drafter that proposes ``draft_length`` tokens a round.

    model: folder of the drafter's weights; None for methods without one, and for ``custom_class``, whose
    ``drafter.model`` names a class.
    """
    found: dict[str, Any] = {"method": drafter.method, "num_speculative_tokens": draft_length}
    row = METHODS[drafter.method]
    if row.name in ("ngram", "ngram_gpu"):
        found["prompt_lookup_min"] = drafter.prompt_lookup_min
        found["prompt_lookup_max"] = drafter.prompt_lookup_max
    elif row.name == "suffix":
        found.update(SUFFIX_DEFAULTS)
    elif row.model == "class":
        found["model"] = drafter.model
    elif model is not None:
        found["model"] = str(model)
    return {**found, **drafter.extra}


def resolve_drafter(drafter: DrafterSpec, *, cache: Path, fetch: bool = True) -> ResolvedModel | None:
    """The drafter's folder and identity; for a class, the file that defines it; None where there is no model.

    Raises ModelNotFoundError, or SpecError for a revision of something that has none.
    """
    if drafter.model is None:
        return None
    if METHODS[drafter.method].model != "class":
        return resolve_model(drafter.model, cache=cache, revision=drafter.revision, fetch=fetch)
    file = _file_of_class(drafter.model)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return ResolvedModel(file, {"source": "class", "name": drafter.model, "revision": "", "source_sha256": digest})


def requirement_problem(
    drafter: DrafterSpec, *, runner: Runner | None = None, vllm_version: str | None = None
) -> str | None:
    """Why this installation cannot draft or measure with the method, in one sentence, or None.

    runner: the model runner the engine will have; None asks nothing of it. vllm_version: likewise.
    """
    row = METHODS[drafter.method]
    if row.module is not None and importlib.util.find_spec(row.module) is None:
        return (
            f"drafter method {row.name} needs the package {row.module.replace('_', '-')}, which is not installed; "
            "install the version vLLM names, or choose another method"
        )
    if row.below is not None and vllm_version is not None and _release(vllm_version) >= row.below:
        return (
            f"drafter method {row.name} was removed in vLLM {row.below[0]}.{row.below[1]}, and this is {vllm_version}; "
            "install an earlier vLLM, or choose another method"
        )
    if runner is not None and runner not in row.runners:
        return (
            f"drafter method {row.name} runs only under vLLM's {row.runners[0].upper()} model runner, "
            f"and this engine has {runner.upper()}"
        )
    for key, (wanted, reason) in _NOT_MEASURABLE.items():
        if drafter.extra.get(key, wanted) != wanted:
            return f"drafter.extra.{key} must be {json.dumps(wanted)}: {reason}; remove it"
    return None


def pair_problem(drafter: DrafterSpec, *, draft_length: int, target: Path, model: Path | None) -> str | None:
    """Why this target and these drafter weights cannot work together at ``draft_length``, or None.

    target, model: folders. What their config.json does not say is left to vLLM.
    """
    row = METHODS[drafter.method]
    if model is None or row.model == "class":
        return None
    theirs, ours = _config(model), _config(target)
    if row.shares_vocabulary and not drafter.extra.get("use_heterogeneous_vocab"):
        wanted, got = _number(ours, "vocab_size"), _number(theirs, "vocab_size")
        if None not in (wanted, got) and wanted != got:
            return (
                f"the drafter {drafter.model} has a vocabulary of {got} tokens and the target one of {wanted}; "
                "they must share it: choose a drafter made for this target"
            )
    for key in row.length_keys:
        limit = _number(theirs, key)
        if limit is not None and draft_length > limit:
            return (
                f"the drafter {drafter.model} proposes at most {limit} tokens a round ({key} in its config.json), "
                f"got draft_length {draft_length}; lower space.draft_length"
            )
    return None


def _file_of_class(path: str) -> Path:
    module, _, name = path.rpartition(".")
    try:
        found = importlib.util.find_spec(module)
    except ImportError as error:  # a package above it is not there, or cannot be imported
        raise ModelNotFoundError(f"the module {module} of drafter {path} cannot be found ({error})") from error
    if found is None:
        raise ModelNotFoundError(f"there is no module {module} for drafter {path}; install it, or correct the name")
    if found.origin is None or not Path(found.origin).is_file():
        raise ModelNotFoundError(f"the module {module} of drafter {path} is not a file; name a class of a Python file")
    file = Path(found.origin)
    if not re.search(rf"\b{re.escape(name)}\b", file.read_text("utf-8", errors="replace")):
        raise ModelNotFoundError(f"{file} has no class {name} for drafter {path}; correct the name")
    return file


def _config(folder: Path) -> dict[str, Any]:
    try:
        value = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelNotFoundError(f"{folder / 'config.json'} cannot be read: {error}") from error
    return value if isinstance(value, dict) else {}


def _number(config: dict[str, Any], key: str) -> int | None:
    """A whole number of a config, where composite models keep their language model's in ``text_config``."""
    inner = config.get("text_config")
    value = config.get(key, inner.get(key) if isinstance(inner, dict) else None)
    return value if isinstance(value, int) else None


def _release(version: str) -> tuple[int, int]:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)
