"""What the serving plugin may be told, and by whom: paths fixed at the start, variables that only tighten."""

from pathlib import Path
from typing import Any

import pytest

from sweeper.artifact.errors import Refused
from sweeper.serving.config import MODES, VARIABLES, ServingConfig, Wishes, read_config
from sweeper.serving.refusals import NotServed

PATHS = {"asd": {"artifact": "/etc/asd/artifact", "policy": "/etc/asd-trust/policy.json"}}


def refused(additional: Any = PATHS, **environment: str) -> str:
    with pytest.raises(NotServed) as error:
        read_config(additional, environment)
    assert error.value.code == "settings"
    return error.value.message


def test_paths_come_from_the_additional_config_alone() -> None:
    config = read_config(PATHS, {"PATH": "/usr/bin", "ASD_SWEEP_VERIFIER": "on", "ASD_SWEEP_DATA": "/data"})
    assert config == ServingConfig(Path("/etc/asd/artifact"), Path("/etc/asd-trust"))
    assert config.admin_token is None


@pytest.mark.parametrize(
    "additional",
    [
        None,
        {},
        {"asd": "/etc/asd"},
        {"asd": {"artifact": "/etc/asd/artifact"}},
        {"asd": {"artifact": "etc/asd", "policy": "/etc/asd-trust/policy.json"}},
        {"asd": {"artifact": "/etc/asd", "policy": "policy.json"}},
        {"asd": {"artifact": "/etc/asd", "policy": "/etc/asd-trust/other.json"}},
        {"asd": {**PATHS["asd"], "mode": "enforce"}},
        {"asd": {**PATHS["asd"], "budget": 999}},
    ],
)
def test_anything_else_in_the_additional_config_is_refused(additional: Any) -> None:
    assert refused(additional)


@pytest.mark.attack(45)
@pytest.mark.parametrize(
    "name",
    [
        "ASD_TRUST_DIR",
        "ASD_MODE",
        "ASD_SWEEP_TRUST",
        "ASD_SWEEP_POLICY",
        "ASD_SWEEP_ARTIFACT",
        "ASD_SWEEP_BUDGET",
        "ASD_SWEEP_PASSPHRASE",
        "ASD_SWEEP_MODE_",
        "ASD_X_SERVICE",
        "ASD_X_SERVICE_HOST_",
        "ASD_X_SERVICE_HOSTS",
        "ASD_X_SERVICE_PORT_",
        "ASD_X_PORT_HTTP",
        "ASD_X_PORT_80",
        "ASD_X_PORT_80_HTTP",
        "ASD_X_PORT_80_TCP_MODE",
        "ASD_X_PORT_800000_TCP",
        "ASD_x_SERVICE_HOST",
        "ASD_X_SERVICE_HOST\n",
        "ASD_SWEEP_MODE_X_SERVICE_HOST=",
    ],
)
def test_an_unknown_variable_of_ours_is_refused_by_name(name: str) -> None:
    message = refused(**{name: "/elsewhere"})
    assert name.strip() in message
    assert all(variable in message for variable in VARIABLES)


@pytest.mark.parametrize("service", ["ASD", "ASD_X", "ASD_SWEEP", "ASD_X__2", "ASD_SWEEP_MATH_7B"])
def test_what_kubernetes_says_of_a_service_with_such_a_name_is_none_of_ours(service: str) -> None:
    """The names that docker links had, which every pod gets unless enableServiceLinks is false."""
    names = ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "SERVICE_PORT_HTTP_2", "SERVICE_PORT_8080", "PORT"]
    for port in ("PORT_80_TCP", "PORT_8443_UDP", "PORT_9_SCTP"):
        names += [port, f"{port}_PROTO", f"{port}_PORT", f"{port}_ADDR"]
    injected = {f"{service}_{name}": "tcp://10.0.0.1:80" for name in names}
    assert read_config(PATHS, injected) == read_config(PATHS, {})
    assert "ASD_SWEEP_MODEL" in refused(**injected, ASD_SWEEP_MODEL="x")


@pytest.mark.attack(45)
def test_variables_of_others_point_nowhere() -> None:
    injected = {"CRYPTO_SIGNER_PATH_PREFIX": "/x", "PYTHONPATH": "/x", "VLLM_PLUGINS": "asd_serving", "XASD_MODE": "x"}
    assert read_config(PATHS, injected) == read_config(PATHS, {})


@pytest.mark.attack(45)
@pytest.mark.parametrize("policy_mode", MODES)
@pytest.mark.parametrize("wish", [None, *MODES])
def test_the_environment_tightens_the_mode_and_never_loosens_it(policy_mode: str, wish: str | None) -> None:
    mode, percent = Wishes(mode=wish).tighten(policy_mode, 20)
    assert MODES.index(mode) == max(MODES.index(policy_mode), MODES.index(wish or "enforce"))
    assert percent == {"enforce": 100, "canary": 20, "strict": 0}[mode]


@pytest.mark.attack(45)
def test_the_environment_lowers_the_canary_and_never_raises_it() -> None:
    assert Wishes(canary_percent=5).tighten("canary", 20) == ("canary", 5)
    assert Wishes(canary_percent=50).tighten("canary", 20) == ("canary", 20)
    assert Wishes(mode="canary", canary_percent=50).tighten("enforce", 20) == ("canary", 50)
    assert Wishes(canary_percent=5).tighten("enforce", 20) == ("enforce", 100)
    assert Wishes.from_wire(Wishes("canary", 3).to_wire()) == Wishes("canary", 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ASD_SWEEP_MODE", "loose"),
        ("ASD_SWEEP_MODE", "ENFORCE"),
        ("ASD_SWEEP_CANARY_PERCENT", "0"),
        ("ASD_SWEEP_CANARY_PERCENT", "101"),
        ("ASD_SWEEP_CANARY_PERCENT", "1.5"),
        ("ASD_SWEEP_CANARY_PERCENT", "1" * 5000),
        ("ASD_SWEEP_EXPECT_ID", "abc"),
        ("ASD_SWEEP_EXPECT_ID", "ABCDEF0123456789"),
        ("ASD_SWEEP_EXPECT_ID", "f" * 65),
    ],
)
def test_a_value_out_of_range_is_refused_in_one_short_line(name: str, value: str) -> None:
    message = refused(**{name: value})
    assert name.strip() in message
    assert len(message) < 300


def test_the_admin_token_is_read_from_a_file_that_others_cannot_change_and_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-of-some-length\n", encoding="ascii")
    file.chmod(0o600)
    config = read_config(PATHS, {"ASD_SWEEP_ADMIN_TOKEN_FILE": str(file)})
    assert config.admin_token == b"a-token-of-some-length"
    assert "a-token" not in repr(config)
    file.chmod(0o666)
    with pytest.raises(Refused) as error:
        read_config(PATHS, {"ASD_SWEEP_ADMIN_TOKEN_FILE": str(file)})
    assert error.value.code == "writable-by-others"
    with pytest.raises(Refused) as error:
        read_config(PATHS, {"ASD_SWEEP_ADMIN_TOKEN_FILE": str(tmp_path / "none")})
    assert error.value.code == "unreadable"


@pytest.mark.parametrize("content", ["", "short", "two words of a token"])
def test_an_admin_token_that_is_short_or_not_one_word_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content, encoding="ascii")
    file.chmod(0o600)
    message = refused(ASD_SWEEP_ADMIN_TOKEN_FILE=str(file))
    assert content not in message or not content
