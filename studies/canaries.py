"""Canaries: what must hold for the shared legs of a draft length before trials may be measured.

Knows nothing of how the driver reacts; the answer is a list of sentences, empty when all is well.
"""

from collections.abc import Sequence

from studies.brackets import check_fixed_work
from studies.legs import LegRecord, Purpose, Role
from studies.shared_legs import UNLIMITED


def canary_failures(draft_length: int, shared_legs: Sequence[LegRecord], expected_tokens_per_prompt: int) -> list[str]:
    """Sentences saying what is wrong with the shared legs of ``draft_length``; empty if nothing is.

    shared_legs: all of them, once ``next_shared_leg`` has no more to ask for; a canary that is missing is a
    failure. A leg is compared with the last warm-up leg of the engine process that decoded it.
    expected_tokens_per_prompt: the protocol's ``fixed_work_tokens``.
    """
    legs = [leg for leg in shared_legs if leg.order.trial is None and leg.order.draft_length == draft_length]
    legs = [leg for leg in legs if leg.order.slice_name == "fixed_work"]
    failures = _missing(draft_length, legs)
    for engine_id in dict.fromkeys(leg.engine_id for leg in legs):
        failures += _failures_of_engine([leg for leg in legs if leg.engine_id == engine_id])
    prompts = len(legs[0].requests) if legs else 0
    for leg in legs:
        failures += _unfair(leg, expected_tokens_per_prompt, prompts)
    return failures


def _missing(draft_length: int, legs: list[LegRecord]) -> list[str]:
    controls = [leg.order.controls for leg in legs if leg.order.purpose is Purpose.CANARY]
    missing = []
    if not any(c.is_strict for c in controls):
        missing.append(f"K={draft_length}: the canary with B=0 was not decoded")
    if UNLIMITED not in controls:
        missing.append(f"K={draft_length}: the canary with B=g=M=inf was not decoded")
    return missing


def _failures_of_engine(legs: list[LegRecord]) -> list[str]:
    """What is wrong with the legs of one engine process, compared with its own strict decoding."""
    warmups = sorted((leg for leg in legs if leg.order.purpose is Purpose.WARMUP), key=lambda leg: leg.order.slot)
    engine, others = legs[0].engine_id, [leg for leg in legs if leg.order.purpose is not Purpose.WARMUP]
    if not warmups:
        return [f"{others[0].order.label}: engine {engine} has no warm-up leg to compare it with"]
    strict = warmups[-1]
    failures = []
    if len(warmups) > 1 and warmups[-2].token_hash != strict.token_hash:
        failures.append(
            f"{strict.order.label}: strict decoding of the same prompts gave other tokens than before in engine "
            f"{engine}; speeds of an engine that does not repeat itself cannot be compared"
        )
    for leg in others:
        if leg.order.role is Role.STRICT and leg.token_hash != strict.token_hash:
            failures.append(f"{leg.order.label}: strict decoding gave other tokens than in warm-up of engine {engine}")
        if leg.order.purpose is not Purpose.CANARY:
            continue
        if leg.order.controls.is_strict and leg.token_hash != strict.token_hash:
            failures.append(
                f"{leg.order.label}: B=0 must decode the same tokens as strict, but does not "
                f"(hash {leg.token_hash}, strict {strict.token_hash})"
            )
        if leg.order.controls == UNLIMITED and leg.rounds >= strict.rounds and leg.exceptions == 0:
            failures.append(
                f"{leg.order.label}: B=g=M=inf changed nothing ({leg.rounds} rounds, strict {strict.rounds}, "
                "no exception); the controls do not reach the verifier, or the drafter proposes nothing to except"
            )
    return failures


def _unfair(leg: LegRecord, expected_tokens: int, expected_prompts: int) -> list[str]:
    failures = []
    wrong_work = check_fixed_work(leg, expected_tokens, expected_prompts)
    if wrong_work:
        failures.append(wrong_work)
    if leg.prefix_cache_hits:
        failures.append(
            f"{leg.order.label}: {leg.prefix_cache_hits} prefix-cache hits, 0 expected; switch prefix caching off"
        )
    if leg.preemptions:
        failures.append(
            f"{leg.order.label}: {leg.preemptions} preemptions, 0 expected; raise engine.kv_cache_gib "
            "or lower engine.max_num_seqs"
        )
    return failures
