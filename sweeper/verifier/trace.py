"""Block traces: every verified block, kept on the device until somebody asks.

Recording a round keeps references to small tensors and copies nothing to the host; ``drain`` does all of that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

MAX_ROUNDS = 200_000


@dataclass(frozen=True)
class _Round:
    request_ids: tuple[str, ...]
    starts: Tensor  # [R] integer
    lengths: Tensor  # [R] integer
    draft: Tensor  # [R, K] int64
    target: Tensor  # [R, K] int64
    regret: Tensor  # [R, K] float32
    accepted: Tensor  # [R] int64
    strict_accepted: Tensor  # [R] int64
    spent_before: Tensor  # [R] float64


class TraceBuffer:
    """Rounds recorded since the last drain, at most ``max_rounds``; later ones are dropped and counted."""

    def __init__(self, max_rounds: int = MAX_ROUNDS) -> None:
        self._rounds: list[_Round] = []
        self._max_rounds = max_rounds
        self.dropped = 0

    def record(
        self,
        *,
        request_ids: Sequence[str],
        starts: Tensor,
        lengths: Tensor,
        draft: Tensor,
        target: Tensor,
        regret: Tensor,
        accepted: Tensor,
        strict_accepted: Tensor,
        spent_before: Tensor,
    ) -> None:
        """Keep one round; rows in the order of ``request_ids``. The tensors must not be written to afterwards."""
        if len(self._rounds) >= self._max_rounds:
            self.dropped += 1
            return
        parts = (starts, lengths, draft, target, regret, accepted, strict_accepted, spent_before)
        self._rounds.append(_Round(tuple(request_ids), *parts))

    def drain(self) -> list[dict[str, Any]]:
        """All kept blocks as plain values in decoding order; a regret that is not finite becomes None."""
        blocks: list[dict[str, Any]] = []
        for item in self._rounds:
            finite = torch.isfinite(item.regret).tolist()
            draft, target, regret = item.draft.tolist(), item.target.tolist(), item.regret.tolist()
            accepted, strict = item.accepted.tolist(), item.strict_accepted.tolist()
            spent, starts = item.spent_before.tolist(), item.starts.tolist()
            for row, k in enumerate(item.lengths.tolist()):
                if k == 0:
                    continue
                blocks.append(
                    {
                        "request_id": item.request_ids[row],
                        "start": starts[row],
                        "draft": draft[row][:k],
                        "target": target[row][:k],
                        "regret": [v if ok else None for v, ok in zip(regret[row][:k], finite[row], strict=False)],
                        "accepted": accepted[row],
                        "strict_accepted": strict[row],
                        "spent_before": spent[row],
                    }
                )
        self._rounds.clear()
        return blocks
