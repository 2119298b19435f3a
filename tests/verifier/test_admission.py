"""Who decodes with ASD while serving: every reason against it, their order, and the canary's hash."""

from types import SimpleNamespace
from typing import Any

import pytest

from sweeper.verifier.admission import ASD, REASONS, AdmissionRules, Candidate, Door, in_canary, reason_for

ARTIFACT = "ab" * 32
RULES = AdmissionRules(artifact_id=ARTIFACT, max_prompt_tokens=100, max_new_tokens=50)


def params(**changes: Any) -> SimpleNamespace:
    """A plain greedy request's sampling parameters, as vLLM fills them in."""
    plain: dict[str, Any] = {
        "temperature": 0.0,
        "max_tokens": 50,
        "extra_args": None,
        "structured_outputs": None,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "min_p": 0.0,
        "min_tokens": 0,
        "logit_bias": None,
        "allowed_token_ids": None,
        "bad_words": None,
        "thinking_token_budget": None,
        "repetition_detection": None,
    }
    return SimpleNamespace(**{**plain, **changes})


def candidate(*, prompt_tokens: int = 100, lora: bool = False, request_id: str = "r", **changes: Any) -> Candidate:
    return Candidate(request_id, params(**changes), prompt_tokens, lora)


def test_a_plain_greedy_request_inside_the_envelope_gets_asd() -> None:
    assert reason_for(candidate(), RULES) == ASD
    assert reason_for(candidate(extra_args={}), RULES) == ASD
    assert reason_for(candidate(bad_words=[], logit_bias={}), RULES) == ASD


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"temperature": 0.7}, "sampled"),
        ({"temperature": 1e-9}, "sampled"),
        ({"structured_outputs": SimpleNamespace(regex="a")}, "structured_output"),
        ({"presence_penalty": 0.1}, "penalties"),
        ({"frequency_penalty": -0.1}, "penalties"),
        ({"repetition_penalty": 1.1}, "penalties"),
        ({"min_p": 0.1}, "penalties"),
        ({"min_tokens": 1}, "penalties"),
        ({"logit_bias": {1: 2.0}}, "penalties"),
        ({"allowed_token_ids": [1]}, "penalties"),
        ({"allowed_token_ids": []}, "penalties"),
        ({"bad_words": ["x"]}, "penalties"),
        ({"thinking_token_budget": 9}, "penalties"),
        ({"lora": True}, "lora"),
        ({"prompt_tokens": 101}, "too_long"),
        ({"max_tokens": 51}, "too_long"),
        ({"max_tokens": None}, "too_long"),
        ({"extra_args": {"asd": "off"}}, "opted_out"),
        ({"extra_args": ["asd"]}, "malformed"),
    ],
)
def test_what_was_not_audited_is_strict_for_the_reason_that_is_named(changes: dict[str, Any], reason: str) -> None:
    assert reason_for(candidate(**changes), RULES) == reason
    assert reason in REASONS


def test_a_request_without_sampling_parameters_is_strict() -> None:
    assert reason_for(Candidate("r", None, 1), RULES) == "malformed"


CONSENT = AdmissionRules(artifact_id=ARTIFACT, max_prompt_tokens=100, max_new_tokens=50, opt_in=True)


@pytest.mark.parametrize("said", [1, True, "1", "true", " True ", "on", " ON "])
def test_a_yes_is_no_opt_out_and_only_on_is_the_consent_that_a_policy_asks_for(said: Any) -> None:
    assert reason_for(candidate(extra_args={"asd": said}), RULES) == ASD
    expected = ASD if isinstance(said, str) and said.strip().lower() == "on" else "not_opted_in"
    assert reason_for(candidate(extra_args={"asd": said}), CONSENT) == expected


@pytest.mark.parametrize(
    "said",
    [
        *(0, False, 0.0, 1.0, 2, -1, 999, None),
        *("", " ", "off", " OFF ", "no", "false", "0", "yes", "onn", "o n", "on,off"),
        *([], ["off"], ["on"], [1], {}, {"on": True}),
    ],
)
def test_whatever_else_a_client_says_is_an_opt_out(said: Any) -> None:
    for rules in (RULES, CONSENT):
        assert reason_for(candidate(extra_args={"asd": said}), rules) == "opted_out"


def test_other_keys_are_not_read() -> None:
    others = {"asd_budget": 999, "asd_B": "inf", "ASD": "off", " asd": False, "Asd": 0}
    assert reason_for(candidate(extra_args=others), RULES) == ASD
    assert reason_for(candidate(extra_args={"ASD": "on", "asd_on": "on"}), CONSENT) == "not_opted_in"


def test_long_requests_get_asd_only_where_the_policy_says_so() -> None:
    lenient = AdmissionRules(artifact_id=ARTIFACT, max_prompt_tokens=100, max_new_tokens=50, long_requests=True)
    assert reason_for(candidate(prompt_tokens=10_000, max_tokens=None), lenient) == ASD
    assert reason_for(candidate(prompt_tokens=10_000, temperature=1.0), lenient) == "sampled"


def test_the_canary_takes_its_share_and_grows_without_moving_anybody_back() -> None:
    ids = [f"cmpl-{i}" for i in range(4000)]
    chosen = {percent: {i for i in ids if in_canary(i, ARTIFACT, percent)} for percent in (1, 10, 50, 99, 100)}
    for percent, taken in chosen.items():
        assert abs(len(taken) / len(ids) - percent / 100) < 0.03
    assert chosen[1] < chosen[10] < chosen[50] < chosen[99] < chosen[100] == set(ids)
    other = {i for i in ids if in_canary(i, "cd" * 32, 50)}
    assert 0.4 < len(other & chosen[50]) / len(chosen[50]) < 0.6, "another artifact draws other requests"


def test_the_canary_is_the_last_question() -> None:
    half = AdmissionRules(artifact_id=ARTIFACT, max_prompt_tokens=100, max_new_tokens=50, percent=1)
    outside = next(f"r{i}" for i in range(99) if not in_canary(f"r{i}", ARTIFACT, 1))
    assert reason_for(candidate(request_id=outside), half) == "canary"
    assert reason_for(candidate(request_id=outside, temperature=1.0), half) == "sampled"
    inside = next(f"r{i}" for i in range(9999) if in_canary(f"r{i}", ARTIFACT, 1))
    assert reason_for(candidate(request_id=inside), half) == ASD


def test_a_closed_door_gives_its_reason_to_everybody() -> None:
    door = Door()
    assert door.reason(candidate()) == "no_artifact"
    door.rules, door.closed = RULES, ""
    assert door.reason(candidate()) == ASD
    for closed in ("halted", "expired"):
        door.closed = closed
        assert door.reason(candidate()) == closed
