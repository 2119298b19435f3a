"""The ledger: what each request has spent, kept by request id and never by batch row.

Device tensors hold one line ("slot") a request, so a verifier round reads and writes them without a host
synchronisation; the host only knows which slot a request has. A line survives batch reordering, preemption and
resumption; spending is monotone, nothing is given back. Finished requests keep their line until it is drained
or, when lines run short, until the oldest finished one is dropped and counted.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sweeper.verifier.settings import RequestControls

NO_STOP_TOKEN = -2


@dataclass
class _Line:
    """Host side of one request: its slot, target rounds seen so far, whether ASD applies to it.

    reason: what the admission said while serving; empty while measuring.
    """

    slot: int
    asd: bool
    reason: str = ""
    rounds: int = 0
    finished: bool = False


class Ledger:
    """Per-request state of the verifier for up to ``capacity`` requests of blocks up to ``max_draft`` tokens."""

    def __init__(self, *, device: torch.device, capacity: int = 1024, max_draft: int = 16, max_stops: int = 8) -> None:
        self.device = device
        self.max_draft = max_draft
        self.dropped = 0
        self._lines: OrderedDict[str, _Line] = OrderedDict()
        self._free = list(range(capacity - 1, -1, -1))
        f64: dict[str, Any] = {"dtype": torch.float64, "device": device}
        i64: dict[str, Any] = {"dtype": torch.int64, "device": device}
        # [capacity]: nats spent, and the controls fixed when the request was first seen
        self.spent = torch.zeros(capacity, **f64)
        self.budget = torch.zeros(capacity, **f64)
        self.gate = torch.zeros(capacity, **f64)
        self.block_cap = torch.zeros(capacity, **f64)
        # [capacity]: exceptions accepted, blocks verified, target rounds and tokens counted on the device
        self.exceptions = torch.zeros(capacity, **i64)
        self.blocks = torch.zeros(capacity, **i64)
        self.rounds = torch.zeros(capacity, **i64)
        self.tokens = torch.zeros(capacity, **i64)
        # [capacity, max_draft]: exceptions and their regret in the request's latest block, for clipping at a stop
        self.last_exceptions = torch.zeros(capacity, max_draft, dtype=torch.bool, device=device)
        self.last_regret = torch.zeros(capacity, max_draft, dtype=torch.float32, device=device)
        # [capacity, max_stops]: the request's stop tokens, padded
        self.stops = torch.full((capacity, max_stops), NO_STOP_TOKEN, **i64)

    def __contains__(self, request_id: str) -> bool:
        line = self._lines.get(request_id)
        return line is not None and not line.finished

    def open(
        self, request_id: str, controls: RequestControls, *, stop_tokens: Iterable[int] = (), reason: str = ""
    ) -> None:
        """Start a request's line. A finished request of the same id is a different one and loses its line.

        Everything written goes one way, to the device; the host does not wait for it.
        """
        old = self._lines.pop(request_id, None)
        if old is not None:
            self._free.append(old.slot)
        slot = self._take_slot()
        self._lines[request_id] = _Line(slot, asd=not controls.is_strict, reason=reason)
        for name in ("spent", "exceptions", "blocks", "rounds", "tokens", "last_exceptions", "last_regret"):
            getattr(self, name)[slot].fill_(0)
        self.budget[slot].fill_(controls.budget)
        self.gate[slot].fill_(controls.gate)
        self.block_cap[slot].fill_(controls.block_cap)
        self.stops[slot].fill_(NO_STOP_TOKEN)
        stops = sorted(stop_tokens)
        if len(stops) > self.stops.shape[1]:
            self.stops = torch.nn.functional.pad(self.stops, (0, len(stops) - self.stops.shape[1]), value=NO_STOP_TOKEN)
        if stops:
            self.stops[slot, : len(stops)].copy_(torch.tensor(stops, dtype=torch.int64), non_blocking=True)

    def reserve_line(self) -> int:
        """A line that belongs to no request, is strict and is never reported: for rows that are nobody's."""
        return self._take_slot()

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        for request_id, line in self._lines.items():
            if line.finished:
                del self._lines[request_id]
                self.dropped += 1
                return line.slot
        self._grow()
        return self._free.pop()

    def _grow(self) -> None:
        """Double the lines; every line was in use by a running request."""
        capacity = self.spent.shape[0]
        for name in ("spent", "budget", "gate", "block_cap", "exceptions", "blocks", "rounds", "tokens"):
            tensor = getattr(self, name)
            setattr(self, name, torch.cat([tensor, torch.zeros_like(tensor)]))
        for name in ("last_exceptions", "last_regret", "stops"):
            tensor = getattr(self, name)
            setattr(self, name, torch.cat([tensor, torch.zeros_like(tensor)]))
        self._free.extend(range(2 * capacity - 1, capacity - 1, -1))

    def reserve_draft(self, length: int) -> None:
        """Make room for blocks of ``length`` draft tokens."""
        if length > self.max_draft:
            extra = length - self.max_draft
            self.last_exceptions = torch.nn.functional.pad(self.last_exceptions, (0, extra))
            self.last_regret = torch.nn.functional.pad(self.last_regret, (0, extra))
            self.max_draft = length

    def slots(self, request_ids: Sequence[str]) -> list[int]:
        """Slots of running requests, in the order given (the batch's order of this round)."""
        return [self._lines[request_id].slot for request_id in request_ids]

    def uses_asd(self, request_id: str) -> bool:
        return self._lines[request_id].asd

    def count_round(self, request_id: str) -> None:
        """One target forward pass gave this request at least one token."""
        self._lines[request_id].rounds += 1

    def count_rounds(self, slots: Tensor, given: Tensor) -> None:
        """The same for a batch, without the host: slots [R] int64; given [R] bool, whether a row got a token."""
        self.rounds.index_add_(0, slots, given.to(torch.int64))

    def count_tokens(self, slots: Tensor, given: Tensor) -> None:
        """Tokens that a target round gave: slots [R] int64; given [R] integer."""
        self.tokens.index_add_(0, slots, given.to(torch.int64))

    def make_running_strict(self) -> None:
        """Requests that run now get no further exception, whatever controls they started with.

        One write that the device carries out in its turn; what was spent stays on record.
        """
        for line in self._lines.values():
            line.asd = False
        self.block_cap.fill_(0)

    def charge(
        self, slots: Tensor, *, lengths: Tensor, spent_after: Tensor, exceptions: Tensor, regret: Tensor
    ) -> None:
        """Book one verified block a row; a row without a draft is no block.

        slots, lengths: [R] int64, slots all different. spent_after: [R] float64. exceptions: [R, K] bool.
        regret: [R, K] float32.
        """
        width = exceptions.shape[1]
        self.spent[slots] = spent_after
        self.exceptions[slots] += exceptions.sum(dim=1)
        self.blocks[slots] += (lengths > 0).to(torch.int64)
        self.last_exceptions[slots] = torch.nn.functional.pad(exceptions, (0, self.max_draft - width))
        charged = torch.where(exceptions, regret, torch.zeros_like(regret))
        self.last_regret[slots] = torch.nn.functional.pad(charged, (0, self.max_draft - width))

    def charge_nothing(self, slots: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> None:
        """Book blocks without an exception, as ``charge`` would; on the CPU only. slots, lengths: [R]."""
        self.blocks.numpy()[slots] += lengths > 0
        self.last_exceptions.numpy()[slots] = False
        self.last_regret.numpy()[slots] = 0

    def finish(self, request_id: str) -> None:
        """The request ended; its line waits to be drained."""
        line = self._lines.get(request_id)
        if line is not None:
            line.finished = True

    def drain(self, *, keep_running: bool = True) -> dict[str, dict[str, Any]]:
        """Statistics by request id, as plain values; lines of finished requests are freed.

        The last block's exceptions and regrets come along, so that the caller can take out what lies beyond the
        tokens the user received. With ``keep_running`` False, running requests are left out. ``reason`` and ``tokens``
        are kept while serving only.
        """
        chosen = {r: line for r, line in self._lines.items() if line.finished or keep_running}
        if not chosen:
            return {}
        index = torch.tensor([line.slot for line in chosen.values()], dtype=torch.int64, device=self.device)
        names = (
            *("spent", "budget", "gate", "block_cap", "exceptions", "blocks", "tokens"),
            *("last_exceptions", "last_regret"),
        )
        rounds = self.rounds[index].tolist()
        columns = {name: getattr(self, name)[index].tolist() for name in names}
        report: dict[str, dict[str, Any]] = {}
        for row, (request_id, line) in enumerate(chosen.items()):
            report[request_id] = {name: columns[name][row] for name in names}
            report[request_id].update(rounds=line.rounds + rounds[row], asd=line.asd, finished=line.finished)
            report[request_id].update(reason=line.reason)
            if line.finished:
                del self._lines[request_id]
                self._free.append(line.slot)
        return report
