"""The V2 adapter asks the host nothing: new requests, a preempted one and a round, on tensors that have no values.

Fake tensors raise where anything would be read back; they lie on the CPU, so the plain functions decide. What the
kernels do with them is in test_kernel, what the adapter decides in tests/conformance and tests/rig.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException

from sweeper.verifier.admission import AdmissionRules, Door
from sweeper.verifier.runner_v2 import VerifierState
from sweeper.verifier.settings import RequestControls, VerifierSettings

DRAFT, VOCABULARY = 3, 1000
PARAMS = SimpleNamespace(all_stop_token_ids={2}, extra_args=None, temperature=0, max_tokens=9)


def verified(
    *, trace: bool = False, serving: bool = False, halt: bool = False
) -> tuple[VerifierState, torch.Tensor, torch.Tensor]:
    """One round of two requests in slots 3 and 1: blocks of 3 drafts and of 1. halt: between admission and round."""
    requests = SimpleNamespace(
        max_num_reqs=4,
        index_to_req_id={3: "a", 1: "b"},
        prompt_len=SimpleNamespace(gpu=torch.empty(4, dtype=torch.int32), np=np.full(4, 5, dtype=np.int32)),
    )
    state = VerifierState(requests, torch.device("cpu"))
    state.settings = VerifierSettings(default=RequestControls(8, 0.25, 2), trace=trace)
    if serving:
        state.door = Door()
        state.door.closed = ""
        state.door.rules = AdmissionRules(artifact_id="ab" * 32, max_prompt_tokens=5, max_new_tokens=9)
    for slot in (3, 1, 1):  # the last as after a preemption
        state.admit(slot, PARAMS)
        assert state.ledger.uses_asd(requests.index_to_req_id[slot])
    if halt:
        state.halt()
    rows = (DRAFT + 1) + (1 + 1)
    arguments: dict[str, Any] = {
        "logits": torch.empty(rows, VOCABULARY, dtype=torch.bfloat16),
        "draft_sampled": torch.empty(rows, dtype=torch.int32),
        "pos": torch.empty(rows, dtype=torch.int64),
        "cu_num_logits": torch.empty(3, dtype=torch.int32),
        "idx_mapping": torch.empty(2, dtype=torch.int32),
        "idx_mapping_np": np.array([3, 1], dtype=np.int32),
    }
    sampled, counts = torch.empty(2, DRAFT + 1, dtype=torch.int64), torch.empty(2, dtype=torch.int32)
    state.count_rounds(arguments["idx_mapping"], counts)
    return state, *state.verify(sampled, counts, **arguments)


@pytest.mark.parametrize(
    "how",
    [{}, {"trace": True}, {"serving": True}, {"serving": True, "halt": True}],
    ids=["measuring", "tracing", "serving", "halted"],
)
def test_a_round_reads_nothing_back_to_the_host(how: dict[str, bool]) -> None:
    with FakeTensorMode():
        _, sampled, counts = verified(**how)
    assert (sampled.shape, sampled.dtype) == ((2, DRAFT + 1), torch.int64)
    assert (counts.shape, counts.dtype) == ((2,), torch.int32)


def test_reading_something_back_would_be_noticed() -> None:
    with FakeTensorMode():
        state, _, _ = verified(trace=True)
        with pytest.raises(DataDependentOutputException):
            state.drain()
