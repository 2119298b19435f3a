"""What one worker knows of the artifact it serves: staged, in use, halted; and why it decodes as it does.

Two steps: ``stage`` verifies the artifact's bytes without changing anything, ``commit`` takes it into use once every
worker has staged the same. Clocks are passed in, so that all workers answer alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sweeper.artifact.bindings import LOADED, require_bound
from sweeper.artifact.fields import plain
from sweeper.artifact.policy import Trust
from sweeper.artifact.statements import moment
from sweeper.artifact.verify import ArtifactFiles, VerifiedArtifact, verify
from sweeper.serving.config import Wishes
from sweeper.serving.refusals import NotServed
from sweeper.serving.tally import Tally
from sweeper.verifier.admission import AdmissionRules, Door
from sweeper.verifier.identity import RANK
from sweeper.verifier.settings import RequestControls, VerifierSettings
from sweeper.verifier.state import Verifier


@dataclass(frozen=True)
class Staged:
    """An artifact that was verified here, the mode and the percentage it may be used with, and the policy's digest."""

    artifact: VerifiedArtifact
    mode: str
    percent: int
    rules: AdmissionRules
    policy_sha256: str

    @property
    def not_after(self) -> str:
        """When it ends: with its own last day, or that of an audit it stands on."""
        return min([self.artifact.frozen.not_after, *(audit.not_after for audit in self.artifact.audits)])


class WorkerState:
    """The serving side of one worker's verifier; made when the API process speaks to it for the first time."""

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier
        self.door = Door()
        self.tally = Tally()
        self.staged: Staged | None = None
        self.used: Staged | None = None
        self.reason = "no-artifact"  # a code, or "" while ASD is on
        self.weights_changed = False
        self.switched_off = False  # the kill switch, until somebody resumes
        self.identity: dict[str, str] | None = None
        verifier.settings = VerifierSettings()
        verifier.door = self.door

    # -- taking an artifact into use ----------------------------------------------------------------------------

    def stage(self, request: Mapping[str, Any], *, at: datetime, identity: dict[str, str]) -> Staged:
        """Verify an artifact's bytes. Nothing changes yet. Raises Refused."""
        trust = Trust.from_wire(request["trust"])
        running = None if self.used is None else self.used.artifact
        artifact = verify(ArtifactFiles.from_wire(request["artifact"]), trust, at=at, running=running)
        policy = trust.policy
        mode, percent = Wishes.from_wire(request["wishes"]).tighten(policy.mode, policy.canary_percent)
        workload = artifact.frozen.workload
        rules = AdmissionRules(
            artifact_id=artifact.id,
            max_prompt_tokens=workload.max_prompt_tokens,
            max_new_tokens=workload.max_new_tokens,
            percent=percent,
            opt_in=policy.opt_in,
            long_requests=policy.uncovered.too_long == "asd",
        )
        self.identity = identity
        self.staged = Staged(artifact, mode, percent, rules, trust.policy_sha256)
        return self.staged

    def commit(self, artifact_id: str, found: Mapping[str, str]) -> None:
        """Use the staged artifact for requests that start from now on.

        found: what all workers together are; this worker must be part of it. Raises Refused or NotServed.
        """
        staged = self.staged
        if staged is None and self._serves(artifact_id):
            return  # another API process staged and committed the same in the meantime
        if staged is None or staged.artifact.id != artifact_id:
            raise NotServed("workers-differ", f"{artifact_id[:16]} was not staged here")
        own = {name: text for name, text in (self.identity or {}).items() if name not in (RANK, LOADED)}
        for name, text in own.items():
            if name != "chat_template.sha256" and found.get(name) != text:
                raise NotServed("workers-differ", f"this worker's {name} is another than the engine's")
        require_bound(staged.artifact, found)
        controls = staged.artifact.frozen.controls
        settings = VerifierSettings(
            default=RequestControls(float(controls.budget), float(controls.gate), float(controls.block_cap)),
            normalised=controls.gate_unit == "normalised",
            protect_stop=controls.protect_stop,
        )
        before = self.verifier.settings
        if (before.normalised, before.protect_stop) != (settings.normalised, settings.protect_stop):
            self.verifier.make_running_strict()  # requests in flight began under the other reading of the rule
        self.verifier.settings = settings
        self.used, self.staged = staged, None
        self.weights_changed = False
        self.door.rules = staged.rules
        if staged.mode == "strict":
            self.halt("mode-strict")
        elif self.switched_off:  # a reload does not undo the kill switch
            self.reason = ""
            self.halt("halted")
        else:
            self._open()

    def _serves(self, artifact_id: str) -> bool:
        used = self.used
        return used is not None and used.artifact.id == artifact_id and self.reason in ("", "mode-strict", "halted")

    def _open(self) -> None:
        self.verifier.halted = False
        self.door.closed = ""
        self.reason = ""

    # -- switching ----------------------------------------------------------------------------------------------

    def halt(self, reason: str) -> None:
        """Strict at once, requests in flight included. reason: a code; the kill switch hides no graver one."""
        if reason == "weights-changed":
            self.weights_changed = True
            self.identity = None
            self.staged = None
        self.switched_off = self.switched_off or reason == "halted"
        self.verifier.halt()
        self.door.closed = "halted"
        if reason != "halted" or self.reason in ("", "expired"):
            self.reason = reason

    def expire(self, at: datetime) -> None:
        """New requests decode strictly once the artifact has ended; those in flight keep what they began with."""
        if self.used is not None and not self.reason and at >= moment(self.used.not_after):
            self.door.closed = "expired"
            self.reason = "expired"

    def resume(self, at: datetime) -> None:
        """End a halt. Raises NotServed where something else than the kill switch stands against it."""
        if self.used is None:
            raise NotServed("no-artifact", "there is no verified artifact to decode with")
        if self.used.mode == "strict":
            raise NotServed("mode-strict", "the policy, or the environment, says strict")
        if self.weights_changed:
            raise NotServed("weights-changed", "reload, so that the weights are compared again")
        if at >= moment(self.used.not_after):
            self.halt("expired")
            self.door.closed = "expired"
            raise NotServed("expired", f"the artifact was valid until {self.used.not_after}")
        if self.reason not in ("", "halted"):
            raise NotServed(self.reason, "reload, so that everything is verified again")
        self.switched_off = False
        self._open()

    def weights_touched(self) -> None:
        """Weights are being loaded into the running engine: what was hashed is no longer what decodes."""
        self.halt("weights-changed")

    # -- telling ------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Plain values: what is in use, how, and why not otherwise."""
        used = self.used
        if used is None:
            return {"artifact": None, "lineage": "", "serial": None, "mode": "strict", "wanted_mode": "strict"} | {
                "reason": self.reason,
                "not_after": "",
                "controls": None,
                "policy_sha256": "",
                "canary_percent": 0,
            }
        frozen = used.artifact.frozen
        return {
            "artifact": used.artifact.id,
            "lineage": frozen.lineage,
            "serial": frozen.serial,
            "mode": "strict" if self.reason else used.mode,
            "wanted_mode": used.mode,
            "reason": self.reason,
            "not_after": used.not_after,
            "controls": plain(frozen.controls),
            "policy_sha256": used.policy_sha256,
            "canary_percent": used.percent,
        }

    def stats(self) -> dict[str, Any]:
        """Status and counts; lines of finished requests leave the ledger with this."""
        self.tally.add(self.verifier.ledger.drain(keep_running=False))
        return {"status": self.status(), "fresh": self.tally.take(), "totals": self.tally.totals.to_wire()}
