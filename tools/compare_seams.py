"""Compares two vLLM source trees at the places the verifier touches: `python tools/compare_seams.py OLD NEW`.

Standard library only; nothing of vLLM is imported, so a wheel that was merely unpacked will do. OLD and NEW are folders
that hold the package vllm. Prints two Markdown tables: the functions that are wrapped or overridden (ALL_SEAMS in
sweeper/verifier/patches.py), and the attributes that are read (READ below). Exit code 1 when NEW lacks one of them.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parent.parent

READ = (
    ("vllm.v1.worker.gpu_model_runner", "GPUModelRunner", ("input_batch", "requests", "discard_request_mask")),
    ("vllm.v1.worker.gpu_input_batch", "InputBatch", ("req_ids", "num_reqs")),
    ("vllm.v1.worker.gpu_input_batch", "CachedRequestState", ("sampling_params", "output_token_ids")),
    ("vllm.v1.worker.gpu.model_runner", "GPUModelRunner", ("rejection_sampler",)),
    ("vllm.v1.worker.gpu.model_states.interface", "ModelState", ("vllm_config", "device")),
    ("vllm.v1.worker.gpu.sample.sampler", "Sampler", ("req_states",)),
    ("vllm.v1.worker.gpu.states", "RequestState", ("index_to_req_id", "max_num_reqs", "prompt_len")),
    ("vllm.v1.worker.gpu.input_batch", "InputBatch", ("idx_mapping",)),
    ("vllm.v1.core.sched.output", "SchedulerOutput", ("finished_req_ids",)),
    ("vllm.sampling_params", "SamplingParams", ("extra_args", "temperature", "all_stop_token_ids")),
    ("vllm.config.vllm", "VllmConfig", ("speculative_config", "parallel_config", "watermark_config")),
    ("vllm.config.vllm", "VllmConfig", ("diffusion_config", "model_config")),
    ("vllm.config.speculative", "SpeculativeConfig", ("rejection_sample_method", "enable_adaptive_verification")),
    ("vllm.config.parallel", "ParallelConfig", ("enable_batch_sharded_sampling",)),
    ("vllm.config.model", "ModelConfig", ("is_diffusion",)),
    ("vllm.triton_utils.importing", "", ("HAS_TRITON",)),
    ("vllm.engine.arg_utils", "EngineArgs", ("worker_extension_cls", "per_request_spec_decode_metrics")),
    ("vllm.engine.arg_utils", "EngineArgs", ("kv_cache_memory_bytes", "async_scheduling", "disable_log_stats")),
)
"""(module, class or "", attributes): what the adapters and compat read, and what our engine sets."""


class Seam(Protocol):
    """What is asked of a patch record: where the function is, and how its parameters must begin."""

    @property
    def module(self) -> str: ...
    @property
    def attribute(self) -> str: ...
    @property
    def parameters(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Found:
    """A function in a source tree. digest: of its source without comments and layout, 12 hex digits."""

    parameters: tuple[str, ...]
    digest: str


def version_of(tree: Path) -> str:
    """The version that a source tree says it is, or "?"."""
    file = package(tree) / "_version.py"
    text = file.read_text("utf-8") if file.is_file() else ""
    said = re.search(r"""^(?:__version__ = )?version = ['"]([^'"]+)""", text, re.M)
    said = said or re.search(r"""^__version__ = .*?['"]([^'"]+)['"]""", text, re.M)
    return said[1] if said else "?"


def package(tree: Path) -> Path:
    """The folder of the package itself: ``tree``, or vllm in it."""
    return tree / "vllm" if (tree / "vllm").is_dir() else tree


def module_tree(tree: Path, module: str) -> ast.Module | None:
    """The parsed module, or None when the tree has no such file."""
    path = package(tree).joinpath(*module.split(".")[1:])
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return ast.parse(file.read_text("utf-8"))
    return None


def find_function(tree: Path, seam: Seam) -> Found | None:
    """The function of a record in a source tree, or None when it is not there."""
    scope: ast.AST | None = module_tree(tree, seam.module)
    for name in seam.attribute.split("."):
        scope = next((n for n in _children(scope) if getattr(n, "name", None) == name), None)
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    names = tuple(a.arg for a in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs))
    return Found(names, hashlib.sha256(ast.unparse(scope).encode("utf-8")).hexdigest()[:12])


def has_attribute(tree: Path, module: str, owner: str, attribute: str) -> bool:
    """Whether a class (or a module, owner "") defines, annotates or assigns an attribute, also as self.NAME."""
    scope: ast.AST | None = module_tree(tree, module)
    if owner:
        scope = next((n for n in _children(scope) if isinstance(n, ast.ClassDef) and n.name == owner), None)
    return scope is not None and attribute in set(_names(scope))


def verdict(seam: Seam, old: Found | None, new: Found | None) -> str:
    """What a record's function is in NEW, in words."""
    if new is None:
        return "missing"
    if new.parameters[: len(seam.parameters)] != seam.parameters:
        return "other parameters"
    if old is None:
        return "there"
    if new.digest == old.digest:
        return "same source"
    added = [name for name in new.parameters if name not in old.parameters]
    return f"changed; new parameters {', '.join(added)}" if added else "changed inside"


def fits(seam: Seam, found: Found | None) -> bool:
    """Whether the adapter can use the function: it is there and its parameters begin as recorded."""
    return found is not None and found.parameters[: len(seam.parameters)] == seam.parameters


def seam_rows(seams: tuple[Seam, ...], old: Path, new: Path) -> list[tuple[str, str, str, str]]:
    """(function, digest in OLD, digest in NEW, verdict) of every record."""
    rows = []
    for seam in seams:
        before, after = find_function(old, seam), find_function(new, seam)
        was, now = ("-" if found is None else found.digest for found in (before, after))
        rows.append((f"{seam.module}.{seam.attribute}", was, now, verdict(seam, before, after)))
    return rows


def read_rows(old: Path, new: Path) -> list[tuple[str, str, str]]:
    """(class, attributes, those that OLD or NEW lacks) of every class that is read."""
    rows = []
    for module, owner, attributes in READ:
        lacking = [
            f"{name} in {version_of(tree)}"
            for tree in (old, new)
            for name in attributes
            if not has_attribute(tree, module, owner, name)
        ]
        rows.append((f"{module}.{owner}".rstrip("."), ", ".join(attributes), ", ".join(lacking) or "-"))
    return rows


def render(seams: tuple[Seam, ...], old: Path, new: Path) -> str:
    """Both tables, in Markdown."""
    heads = (version_of(old), version_of(new))
    lines = [f"| function | {heads[0]} | {heads[1]} | in {heads[1]} |", "|---|---|---|---|"]
    lines += [f"| `{name}` | `{a}` | `{b}` | {said} |" for name, a, b, said in seam_rows(seams, old, new)]
    lines += ["", "| read from | attributes | missing |", "|---|---|---|"]
    lines += [f"| `{name}` | {names} | {lacking} |" for name, names, lacking in read_rows(old, new)]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or not all(module_tree(Path(a), "vllm.version") for a in arguments):
        print(__doc__.splitlines()[0] + "\nOLD and NEW must be folders that hold the package vllm", file=sys.stderr)
        return 2
    sys.path.insert(0, str(ROOT))
    from sweeper.verifier.patches import ALL_SEAMS

    old, new = (Path(a) for a in arguments)
    print(render(ALL_SEAMS, old, new))
    complete = all(fits(seam, find_function(new, seam)) for seam in ALL_SEAMS)
    complete = complete and all(has_attribute(new, m, o, name) for m, o, names in READ for name in names)
    return 0 if complete else 1


def _children(scope: ast.AST | None) -> list[ast.AST]:
    return list(getattr(scope, "body", []))


def _names(scope: ast.AST) -> Iterator[str]:
    """Names bound anywhere in the scope: definitions, fields, assignments to NAME and to self.NAME."""
    for node in ast.walk(scope):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        targets = getattr(node, "targets", []) if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            for part in ast.walk(target) if isinstance(target, ast.AST) else ():
                if isinstance(part, ast.Name):
                    yield part.id
                elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
                    yield part.attr


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
