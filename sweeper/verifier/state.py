"""What both adapters share: settings, ledger, traces, and the judgement of one round of padded rows.

Knows nothing of a model runner: an adapter finds the rows of a round and writes the decision back.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from sweeper.verifier.admission import ASD, Candidate, Door
from sweeper.verifier.kernel import select
from sweeper.verifier.ledger import Ledger
from sweeper.verifier.rows import Rows
from sweeper.verifier.rules import Selection
from sweeper.verifier.settings import STRICT_REQUEST, RequestControls, VerifierSettings, controls_of_request
from sweeper.verifier.trace import TraceBuffer


class Verifier:
    """What the verifier knows in one worker: settings, ledger, traces, refused requests.

    door: set while serving; it then decides which requests get the controls of ``settings``, and requests bring none
    of their own. halted: every row is strict, also of requests that had begun with ASD.
    """

    def __init__(self, device: torch.device) -> None:
        self.settings = VerifierSettings()
        self.ledger = Ledger(device=device)
        self.traces = TraceBuffer()
        self.refused: dict[str, int] = {}
        self.door: Door | None = None
        self.halted = False

    def open(self, request_id: str, params: Any, *, prompt_tokens: int = 0, lora: bool = False) -> None:
        """Begin a request's ledger line with the controls it decodes under; ``params``: SamplingParams or None.

        prompt_tokens, lora: of the request; looked at while serving only.
        """
        controls, stops, reason = STRICT_REQUEST, frozenset[int](), ""
        if params is not None:
            stops = frozenset(params.all_stop_token_ids)
        if self.door is not None:
            reason = self.door.reason(Candidate(request_id, params, prompt_tokens, lora))
            controls = self.settings.default if reason == ASD else STRICT_REQUEST
        elif params is not None:
            controls = self._controls(params)
        self.ledger.open(request_id, controls, stop_tokens=stops, reason=reason)

    def halt(self) -> None:
        """From now on every row is strict, requests in flight included; nothing waits for the device."""
        self.halted = True
        self.make_running_strict()

    def make_running_strict(self) -> None:
        """Requests that run now stay strict until they end, also after a halt is over."""
        self.ledger.make_running_strict()

    def _controls(self, params: Any) -> RequestControls:
        try:
            controls = controls_of_request(params.extra_args, self.settings)
        except ValueError:
            return self._refuse("malformed")
        if controls.is_strict:
            return controls
        if params.temperature != 0:
            return self._refuse("sampled")
        return controls

    def _refuse(self, reason: str) -> RequestControls:
        self.refused[reason] = self.refused.get(reason, 0) + 1
        return STRICT_REQUEST

    def finish(self, request_ids: Iterable[str]) -> None:
        """These requests ended; their lines wait to be drained."""
        for request_id in request_ids:
            self.ledger.finish(request_id)

    def judge(self, rows: Rows) -> Selection:
        """Decide every block and book it. Nothing is read back to the host."""
        ledger = self.ledger
        protected = None
        if self.settings.protect_stop:
            stops = ledger.stops[rows.lines].unsqueeze(1)  # [R, 1, S]
            drafts, targets = rows.draft_ids.unsqueeze(2), rows.target_ids.unsqueeze(2)
            protected = (drafts == stops).any(2) | (targets == stops).any(2)
        chosen = select(
            draft_ids=rows.draft_ids,
            target_ids=rows.target_ids,
            top_logits=rows.top_logits,
            draft_logits=rows.draft_logits,
            lengths=rows.lengths,
            budget=ledger.budget[rows.lines],
            gate=ledger.gate[rows.lines],
            block_cap=ledger.block_cap[rows.lines],
            spent=ledger.spent[rows.lines],
            normalised=self.settings.normalised,
            protected=protected,
        )
        ledger.reserve_draft(rows.draft_ids.shape[1])
        ledger.charge(
            rows.lines,
            lengths=rows.lengths,
            spent_after=chosen.spent_after,
            exceptions=chosen.exceptions,
            regret=chosen.regret,
        )
        return chosen

    def trace(
        self, request_ids: Sequence[str], rows: Rows, chosen: Selection, *, starts: Tensor, spent_before: Tensor
    ) -> None:
        """Keep the round's blocks until they are drained.

        starts: [R] integer, tokens each request had received before. spent_before: [R] float64, nats.
        """
        self.traces.record(
            request_ids=request_ids,
            starts=starts,
            lengths=rows.lengths,
            draft=rows.draft_ids,
            target=rows.target_ids,
            regret=chosen.regret,
            accepted=chosen.accepted,
            strict_accepted=chosen.strict_accepted,
            spent_before=spent_before,
        )

    def drain(self) -> dict[str, Any]:
        """Everything since the last drain as plain values: requests, block traces, refused counts, drops."""
        report = {
            "requests": self.ledger.drain(),
            "blocks": self.traces.drain(),
            "refused": dict(self.refused),
            "dropped": {"requests": self.ledger.dropped, "rounds": self.traces.dropped},
        }
        self.refused.clear()
        return report
