"""``asd-sweep export``: what it prints, what it refuses, and that no secret is in anything it writes or says."""

import json
import os
from pathlib import Path

import pytest
import typer

from sweeper.cli import export, failures
from sweeper.export.targets import TARGETS
from tests.export.artifacts import OnDisk, frozen, on_disk, serving

NO_HUB = serving(model="tiny", revision="")


class Command:
    """``asd-sweep export`` alone, in this process."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._app = typer.Typer()
        export.register(self._app)
        self._app.callback()(lambda: None)
        self._capfd = capfd
        self.out = self.err = ""

    def __call__(self, *arguments: str | Path) -> int:
        self._capfd.readouterr()
        code = failures.run(self._app, ["export", *map(str, arguments)])
        self.out, self.err = self._capfd.readouterr()
        return code


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(capfd)


@pytest.fixture
def made(tmp_path: Path) -> OnDisk:
    return on_disk(tmp_path, frozen(serving=serving()))


def usual(made: OnDisk, out: Path, target: str = "vllm") -> list[str | Path]:
    return [made.artifact, "--to", target, "--trust", made.trust_folder, "--out", out, "--name", "qwen"]


def test_the_command_knows_every_target() -> None:
    assert set(export.NAMES) == set(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_written_and_written_again(command: Command, made: OnDisk, tmp_path: Path, target: str) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        assert command(*usual(made, out, target)) == 0, command.err
        assert command.err == ""
        assert sorted(command.out.split()) == sorted(str(path) for path in out.iterdir())


def test_the_document_names_the_files(command: Command, made: OnDisk, tmp_path: Path) -> None:
    assert command(*usual(made, tmp_path / "out"), "--json") == 0
    document = json.loads(command.out)
    assert (document["artifact"], document["target"], document["missing"]) == (made.id, "vllm", [])
    assert [Path(file).name for file in document["files"]] == [
        "asd.vllm.yaml",
        "asd.args",
        "asd.env",
        "asd-export.json",
    ]


def test_a_models_name_that_may_be_no_address_is_warned_about(command: Command, tmp_path: Path) -> None:
    made = on_disk(tmp_path, frozen(serving=NO_HUB))
    assert command(*usual(made, tmp_path / "out")) == 0
    assert "export again with --model" in command.err
    assert command(*usual(made, tmp_path / "kube", "kubernetes")) == 0
    assert command.err == "", "there the Deployment names the model"


@pytest.mark.parametrize("target", TARGETS)
def test_an_artifact_that_is_not_trusted_is_never_written(
    command: Command, made: OnDisk, tmp_path: Path, target: str
) -> None:
    stranger = on_disk(tmp_path / "stranger", made.statement)
    arguments = [*usual(made, tmp_path / "out", target), "--trust", stranger.trust_folder]
    assert command(*arguments) == 1
    assert command.err.startswith("asd-sweep: error: no-trusted-signature: ")
    assert command.out == ""
    assert not (tmp_path / "out").exists()


def test_an_artifact_does_not_bring_its_own_trust(command: Command, made: OnDisk, tmp_path: Path) -> None:
    inside = made.artifact / "trust"
    made.trust_folder.rename(inside)
    assert command(*usual(made, tmp_path / "out"), "--trust", inside) == 2
    assert "lies in the artifact itself" in command.err
    assert not (tmp_path / "out").exists()


def test_a_tampered_artifact_is_never_written(command: Command, made: OnDisk, tmp_path: Path) -> None:
    bundle = made.artifact / "freeze.sigstore.json"
    data = bytearray(bundle.read_bytes())
    at = data.index(b'"payload":"') + 100
    data[at] ^= 1
    bundle.write_bytes(bytes(data))
    assert command(*usual(made, tmp_path / "out"), "--json") == 1
    assert json.loads(command.out)["exit_code"] == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--to", "sglang"], "--to must be one of vllm"),
        (["--to", "$(id)\n"], "--to must be one of vllm"),
        (["--artifact-path", "etc"], "--artifact-path must be an absolute path"),
        (["--model", "--flag"], "--model must be a path"),
    ],
)
def test_a_wrong_option_is_a_usage_error(
    command: Command, made: OnDisk, tmp_path: Path, wrong: list[str], said: str
) -> None:
    assert command(*usual(made, tmp_path / "out"), *wrong) == 2
    assert said in command.err
    assert len(command.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_of_somebody_elses_is_kept(command: Command, made: OnDisk, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("x")
    assert command(*usual(made, out)) == 2
    assert [path.name for path in out.iterdir()] == ["mine"]


@pytest.mark.attack(44)
@pytest.mark.parametrize("place", ["artifact", "deep in the artifact", "out"])
def test_a_folder_that_holds_a_private_key_is_refused(
    command: Command, made: OnDisk, tmp_path: Path, place: str
) -> None:
    out = tmp_path / "out"
    folder = {"artifact": made.artifact, "deep in the artifact": made.artifact / "a" / "b", "out": out}[place]
    folder.mkdir(parents=True, exist_ok=True)
    planted = folder / "asd.key"
    planted.write_text(_real_key())
    assert command(*usual(made, out)) == 1
    assert "holds a private key" in command.err
    assert planted.read_text().splitlines()[1] not in command.err
    assert not out.exists() or [path.name for path in out.iterdir()] == ["asd.key"]


@pytest.mark.attack(44)
@pytest.mark.parametrize("target", TARGETS)
def test_no_secret_that_is_near_gets_into_an_export(
    command: Command, made: OnDisk, tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Canaries: a passphrase in the environment, the signing key beside the artifact, another file in its folder."""
    monkeypatch.setenv("ASD_SWEEP_PASSPHRASE", "canary-passphrase-7c1f")
    key = _real_key()
    (tmp_path / "asd.key").write_text(key)
    (made.artifact / "notes.txt").write_text("canary-note-91d2")
    out = tmp_path / "out"
    assert command(*usual(made, out, target)) == 0
    said = command.out + command.err + "".join(path.read_text() for path in sorted(out.iterdir()))
    public = made.signer.public.pem.decode().splitlines()[1]
    for secret in ("canary-passphrase-7c1f", "canary-note-91d2", key.splitlines()[1], "PRIVATE", "PUBLIC KEY", public):
        assert secret not in said
    assert '"lineages"' not in said, "the policy is written by somebody else"


def _real_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


def test_the_files_can_be_read_by_a_server_that_is_another_user(command: Command, made: OnDisk, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        assert command(*usual(made, tmp_path / "out")) == 0
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()} == {0o644}
