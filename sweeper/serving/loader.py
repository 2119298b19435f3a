"""Read an artifact once, verify it, have every worker verify the same bytes, compare, and only then use it.

Runs in the API process. A failure leaves the workers as they were: what runs goes on running, and at the start nothing
does.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sweeper.artifact.artifact_files import ArtifactFiles, read_artifact
from sweeper.artifact.bindings import Mismatch, require_bound
from sweeper.artifact.errors import Refused
from sweeper.artifact.policy import Trust, load_trust
from sweeper.artifact.statements import time_text
from sweeper.artifact.verify import VerifiedArtifact, verify
from sweeper.serving.config import ServingConfig
from sweeper.serving.host import found_here
from sweeper.serving.refusals import NotServed, not_served
from sweeper.serving.workers import Workers, require_ok, require_same
from sweeper.verifier.identity import merge_identities


@dataclass(frozen=True)
class Loaded:
    """An artifact that all workers now use, the bytes it was verified from, and what differs without mattering."""

    artifact: VerifiedArtifact
    files: ArtifactFiles
    status: dict[str, Any]
    warnings: tuple[str, ...]


class Loader:
    """Takes artifacts into use, one at a time.

    vllm_config: the engine's; chat_template: text of --chat-template or None.
    """

    def __init__(self, config: ServingConfig, workers: Workers, *, vllm_config: Any, chat_template: str | None) -> None:
        self._config = config
        self._workers = workers
        self._vllm_config = vllm_config
        self._chat_template = chat_template
        self.loaded: Loaded | None = None

    async def begin(self) -> None:
        """Are the workers ready at all? Raises NotServed (``plugin-inactive``, ``engine-unsupported``, ...)."""
        require_ok(await self._workers.ask("asd_begin"))

    async def load(self, *, at: datetime) -> Loaded:
        """Use what lies in the configured folder now. Raises NotServed; then nothing has changed.

        Only when workers fail to take up what all of them had accepted are all of them made strict.
        """
        try:
            files, trust = await asyncio.to_thread(self._read)
            running = None if self.loaded is None else self.loaded.artifact
            artifact = verify(files, trust, at=at, running=running)
            if not artifact.id.startswith(self._config.expect_id):
                raise NotServed("unexpected-artifact", f"{artifact.id[:16]} is not {self._config.expect_id}")
            found, differing = await self._stage(artifact, files, trust, at=at)
        except (Refused, NotServed) as refused:
            raise not_served(refused) from refused
        status = await self._commit(artifact.id, found)
        warnings = (*artifact.warnings, *(str(mismatch) for mismatch in differing if mismatch.level == "warn"))
        self.loaded = Loaded(artifact, files, status, warnings)
        return self.loaded

    def _read(self) -> tuple[ArtifactFiles, Trust]:
        return read_artifact(self._config.artifact), load_trust(self._config.trust)

    async def _stage(
        self, artifact: VerifiedArtifact, files: ArtifactFiles, trust: Trust, *, at: datetime
    ) -> tuple[dict[str, str], list[Mismatch]]:
        """First step: every worker verifies the bytes and says what it is; all of it is compared here."""
        request = {
            "artifact": files.to_wire(),
            "trust": trust.to_wire(),
            "wishes": self._config.wishes.to_wire(),
            "at": time_text(at),
        }
        answers = require_ok(await self._workers.ask("asd_stage", request=request))
        first = require_same(answers, "artifact", "mode")
        if first["artifact"] != artifact.id:
            raise NotServed("workers-differ", f"the workers read {str(first['artifact'])[:16]}, not {artifact.id[:16]}")
        try:
            merged = merge_identities([answer["identity"] for answer in answers])
        except ValueError as error:
            raise NotServed("workers-differ", str(error)) from error
        found = await found_here(
            artifact.frozen.bindings, merged, vllm_config=self._vllm_config, chat_template=self._chat_template
        )
        return found, require_bound(artifact, found)

    async def _commit(self, artifact_id: str, found: dict[str, str]) -> dict[str, Any]:
        """Second step: all take it up, or all go strict."""
        try:
            answers = require_ok(await self._workers.ask("asd_commit", artifact_id=artifact_id, found=found))
            return dict(require_same(answers, "artifact", "mode"))
        except NotServed as refused:
            await self._workers.ask("asd_halt", reason=refused.code)
            raise

    def running_problem(self, artifact_id: str | None, *, at: datetime) -> NotServed | None:
        """Why the running artifact may not go on, by the policy as it is now; None when it may, or cannot be said.

        Asked after a reload was refused: a policy that now revokes the running artifact must stop it, while a trust
        folder that is half replaced says nothing.
        """
        if self.loaded is None or self.loaded.artifact.id != artifact_id:
            return None  # another API process loaded it
        try:
            trust = load_trust(self._config.trust)
        except Refused:
            return None
        try:
            verify(self.loaded.files, trust, at=at)
        except Refused as refused:
            return not_served(refused)
        return None
