"""What ``verify`` can compare beyond the artifact: a model folder, a drafter's, and what a running server says.

Loads no model: a folder shows its weights, its chat template and, when the tokenizer was saved as it is used, that.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studies.errors import UsageError
from sweeper.artifact.errors import CODES, Explanation, one_line
from sweeper.artifact.fields import HEX64
from sweeper.serving.refusals import SERVING_CODES

if TYPE_CHECKING:
    from sweeper.artifact.policy import Trust
    from sweeper.watch.server import Server

LOOSER = ("strict", "canary", "enforce")
"""Modes of a server, the tightest first."""

SERVER_CODES: Mapping[str, Explanation] = {
    "server-unreachable": Explanation(
        "The server did not answer as a vLLM server with the ASD plugin does.",
        "Check the address and the key, and that VLLM_PLUGINS names asd_serving.",
    ),
    "server-artifact": Explanation(
        "The server runs another artifact than this one, or none.",
        "Mount this artifact and reload (POST /v1/asd/reload), or verify the one it runs.",
    ),
    "server-mode": Explanation(
        "The server does not decode in the mode that it was set to, or in a looser one than the policy's.",
        "Read the reason in its status; start it again, or POST /v1/asd/enforce after a halt.",
    ),
}
"""Codes of ``verify --server``, beside those of sweeper.artifact.errors.CODES."""

ALL_CODES: Mapping[str, Explanation] = {**CODES, **SERVING_CODES, **SERVER_CODES}
"""Every code that ``verify --explain`` explains: those that a server gives are among them."""

_REVISION = re.compile(r"snapshots/([0-9a-f]{40})$")


@dataclass(frozen=True)
class Compared:
    """One question to the host. code: of the refusal when ``ok`` is false, else ""."""

    name: str
    ok: bool
    detail: str
    code: str = ""


def compare_folder(role: str, folder: Path, bound: Mapping[str, str]) -> list[Compared]:
    """Hold a model folder against an artifact's bindings. role: "target" or "drafter".

    Weights that differ, and weights that the artifact was not bound to, refuse. Raises UsageError when the folder is
    no complete model.
    """
    found = _found_in(role, folder)
    files = f"{role}.files_sha256"
    answers = []
    if files not in bound:
        why = f"the artifact is not bound to the {role}'s files; only the server can compare its loaded weights"
        answers.append(Compared(f"{role} weights", False, f"binding-unknown: {why}", "binding-unknown"))
    for name, value in found.items():
        if name in bound and name != "tokenizer.sha256":
            answers.append(_answer(name, bound[name], value))
    if bound.get("tokenizer.sha256") and found.get("tokenizer.sha256") == bound["tokenizer.sha256"]:
        answers.append(Compared("tokenizer.sha256", True, "equal"))
    return answers


def _answer(name: str, bound: str, found: str) -> Compared:
    if bound == found:
        return Compared(name, True, "equal")
    return Compared(name, False, one_line(f"binding: {name}: measured with {bound}, found {found}"), "binding")


def _found_in(role: str, folder: Path) -> dict[str, str]:
    """What a folder shows of the names in BINDINGS."""
    from sweeper.engine.weights import missing_weights, weights_sha256

    if not folder.is_dir():
        raise UsageError(f"--{role} {folder} is no folder; expected a model's folder")
    try:
        missing = missing_weights(folder)
        if missing is not None:
            raise UsageError(f"--{role} {folder} is no complete model: it lacks {missing}")
        found = {f"{role}.files_sha256": weights_sha256(folder)}
        if role == "target":
            found |= _texts_of(folder)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--{role} {folder} cannot be read: {one_line(str(error))}") from error
    revision = _REVISION.search(str(folder.resolve()))
    if revision is not None:
        found[f"{role}.revision"] = revision[1]
    return found


def _texts_of(folder: Path) -> dict[str, str]:
    """Digests of the tokenizer as saved, and of the chat template; absent when the folder has none."""
    from sweeper.verifier.identity import chat_template_sha256, sha256_of

    found = {}
    tokenizer, template = folder / "tokenizer.json", folder / "chat_template.jinja"
    if tokenizer.is_file():
        found["tokenizer.sha256"] = sha256_of(json.loads(tokenizer.read_text("utf-8")))
    if template.is_file():
        found["chat_template.sha256"] = chat_template_sha256(template.read_text("utf-8"))
        return found
    settings = folder / "tokenizer_config.json"
    text = json.loads(settings.read_text("utf-8")).get("chat_template") if settings.is_file() else None
    if isinstance(text, str):
        found["chat_template.sha256"] = chat_template_sha256(text)
    return found


def compare_server(url: str, *, api_key_file: Path | None, artifact_id: str, trust: "Trust") -> list[Compared]:
    """Ask a running server which artifact it runs, in which mode, under which policy. Raises UsageError."""
    from sweeper.watch.server import Server, ServerError, read_api_key

    server = Server(url, api_key=None if api_key_file is None else read_api_key(api_key_file))
    try:
        status = _status(server)
        running, mode, wanted = _text(status, "artifact"), _text(status, "mode"), _text(status, "wanted_mode")
        reason, policy = _text(status, "reason"), _text(status, "policy_sha256")
    except ServerError as error:
        return [Compared("server", False, one_line(f"server-unreachable: {error}"), "server-unreachable")]
    if running != artifact_id:
        what = f"artifact {running}" if HEX64.fullmatch(running) else f"no artifact, reason: {reason or 'none'}"
        return [Compared("server artifact", False, one_line(f"server-artifact: it runs {what}"), "server-artifact")]
    answers = [Compared("server artifact", True, "equal")]
    order = {name: place for place, name in enumerate(LOOSER)}
    if mode not in order or wanted not in order or mode != wanted:
        why = f"it decodes in mode {mode or 'unknown'}, was set to {wanted or 'unknown'}, reason: {reason or 'none'}"
        answers.append(Compared("server mode", False, one_line(f"server-mode: {why}"), "server-mode"))
    elif order[mode] > order[trust.policy.mode]:
        why = f"it decodes in mode {mode}, the policy says {trust.policy.mode}"
        answers.append(Compared("server mode", False, f"server-mode: {why}", "server-mode"))
    else:
        answers.append(Compared("server mode", True, f"{mode}, the policy says {trust.policy.mode}"))
    same = "equal" if policy == trust.policy_sha256 else "another one than the one used here"
    answers.append(Compared("server policy", True, same))
    return answers


def _status(server: "Server") -> dict[str, Any]:
    """What the server says of itself. Raises ServerError."""
    from sweeper.watch.server import STATUS, ServerError, cause_of

    try:
        status = json.loads(server.fetch(STATUS))
    except (ValueError, RecursionError) as error:
        raise ServerError(f"{STATUS}: {cause_of(error)}") from error
    if not isinstance(status, dict):
        raise ServerError(f"{STATUS} answered something other than a status")
    return status


def _text(status: Mapping[str, Any], name: str) -> str:
    value = status.get(name)
    return one_line(value, 100) if isinstance(value, str) else ""
