"""Worker extension: how the engine's process talks to the verifier inside its workers (``collective_rpc``).

vLLM mixes this class into its worker; method names carry the prefix ``asd_`` so that nothing clashes. Arguments
and results are plain values, since they may cross a process.
"""

import math
from typing import Any

from sweeper.verifier.identity import identity_of
from sweeper.verifier.runners import describe, refusals, verifier_of
from sweeper.verifier.settings import RequestControls, VerifierSettings, read_number

CONTROLS = ("budget", "gate", "block_cap")


class AsdWorkerExtension:
    """``LLM(worker_extension_cls="sweeper.verifier.extension.AsdWorkerExtension")``."""

    model_runner: Any

    def asd_configure(
        self,
        *,
        budget: Any,
        gate: Any,
        block_cap: Any,
        per_request: bool = False,
        normalised: bool = False,
        protect_stop: bool = True,
        trace: bool = False,
    ) -> bool:
        """Set the engine-wide settings for requests that start from now on.

        Raises ValueError when malformed, RuntimeError where the verifier is not active or this engine is refused.
        """
        controls = RequestControls(
            read_number(budget, name="budget"), read_number(gate, name="gate"), read_number(block_cap, name="block_cap")
        )
        verifier = verifier_of(self.model_runner)
        refused = [] if controls.is_strict and not per_request else refusals(self.model_runner)
        if refused:
            raise RuntimeError("only strict controls are taken by this engine: " + "; ".join(refused))
        verifier.settings = VerifierSettings(
            default=controls, per_request=per_request, normalised=normalised, protect_stop=protect_stop, trace=trace
        )
        return True

    def asd_drain(self) -> dict[str, Any]:
        """Statistics of requests and traced blocks since the last call; an infinite control is "inf", as JSON wants."""
        report = verifier_of(self.model_runner).drain()
        for line in report["requests"].values():
            line.update({name: "inf" for name in CONTROLS if math.isinf(line[name])})
        return report

    def asd_facts(self) -> dict[str, Any]:
        """What is installed in this worker, for the record and for refusing what is not supported."""
        return describe(self.model_runner)

    def asd_identity(self) -> dict[str, str]:
        """What this worker has loaded and runs, by the names of ``identity``; for all ranks: ``merge_identities``.

        Hashing the weights takes about 1.5 s a GiB.
        """
        return identity_of(self)
