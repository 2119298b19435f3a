"""Where a passphrase may come from, and that it never comes from, or goes to, a place that others can read."""

import os
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from studies.errors import UsageError
from sweeper.cli import app
from sweeper.freeze.passphrases import PassphraseSource, current_passphrase, new_passphrase
from sweeper.freeze.private_keys import KeyPair, Secret, load_private_key
from tests.keys.command import PASSPHRASE, PROGRAM, process, process_environment

ON_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def source(file: Path | None = None, fd: int | None = None) -> tuple[PassphraseSource, list[str]]:
    """A source, and the warnings that will have come of it."""
    warnings: list[str] = []
    return PassphraseSource(file, fd, warn=warnings.append), warnings


def passphrase_file(folder: Path, data: bytes, mode: int = 0o600) -> Path:
    file = folder / "passphrase"
    file.write_bytes(data)
    file.chmod(mode)
    return file


def pipe(data: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return reading


# -- files, descriptors, the environment -------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"secret word", b"secret word\n", b"secret word\r\n", b"secret word\nmore\n"])
def test_the_first_line_of_a_file_or_descriptor_is_the_passphrase(tmp_path: Path, data: bytes) -> None:
    by_file, warnings = source(passphrase_file(tmp_path, data))
    by_descriptor, _ = source(fd=(descriptor := pipe(data)))
    assert current_passphrase(by_file, "", {}).reveal() == b"secret word"
    assert current_passphrase(by_descriptor, "", {}).reveal() == b"secret word"
    os.close(descriptor)
    assert warnings == []


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\nword", b"x" * 1025, b"x" * 5000 + b"\n"])
def test_an_empty_or_endless_line_is_no_passphrase(tmp_path: Path, data: bytes) -> None:
    for by, _ in (source(passphrase_file(tmp_path, data)), source(fd=(descriptor := pipe(data)))):
        with pytest.raises(UsageError, match="gave"):
            current_passphrase(by, "", {})
    os.close(descriptor)


def test_a_file_that_others_can_read_is_told(tmp_path: Path) -> None:
    by_file, warnings = source(passphrase_file(tmp_path, b"secret word\n", 0o644))
    assert current_passphrase(by_file, "", {}).reveal() == b"secret word"
    assert [("mode 0644" in warning, "secret word" in warning) for warning in warnings] == [(True, False)]


@pytest.mark.parametrize(
    ("descriptor", "said"), [(-1, "3 and up"), (1, "3 and up"), (2, "3 and up"), (987, "cannot be read")]
)
def test_a_descriptor_must_be_one_to_read_from(descriptor: int, said: str) -> None:
    with pytest.raises(UsageError, match=f"--passphrase-fd.*{said}"):
        current_passphrase(source(fd=descriptor)[0], "", {})


def test_a_file_and_a_descriptor_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        PassphraseSource(tmp_path, 3)


def test_the_environment_is_accepted_with_a_warning_and_not_handed_on() -> None:
    nothing, warnings = source()
    environment = {"ASD_SWEEP_PASSPHRASE": "secret word", "OTHER": "kept"}
    assert current_passphrase(nothing, "", environment).reveal() == b"secret word"
    assert environment == {"OTHER": "kept"}
    assert [("ASD_SWEEP_PASSPHRASE" in warning, "secret word" in warning) for warning in warnings] == [(True, False)]


def test_a_file_goes_before_the_environment(tmp_path: Path) -> None:
    by_file, warnings = source(passphrase_file(tmp_path, b"from the file"))
    environment = {"ASD_SWEEP_PASSPHRASE": "from the environment"}
    assert current_passphrase(by_file, "", environment).reveal() == b"from the file"
    assert (environment, warnings) == ({}, [])


def test_a_new_passphrase_has_at_least_eight_characters(tmp_path: Path) -> None:
    for enough in (b"12345678", "ääääääää".encode()):
        assert new_passphrase(source(passphrase_file(tmp_path, enough))[0], "", {}).reveal() == enough
    for short in (b"1234567", "äääääää".encode()):
        with pytest.raises(UsageError, match="at least 8 characters"):
            new_passphrase(source(passphrase_file(tmp_path, short))[0], "", {})


def test_without_a_terminal_nothing_is_asked_and_nothing_is_read_from_standard_input(tmp_path: Path) -> None:
    done = process("keys", "generate", "--out", "asd", cwd=tmp_path, input=PASSPHRASE + b"\n" + PASSPHRASE + b"\n")
    assert done.returncode == 2
    assert b"no terminal" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_descriptor_that_the_shell_opened(tmp_path: Path) -> None:
    descriptor = pipe(PASSPHRASE + b"\n")
    arguments = ("keys", "generate", "--out", "asd", "--passphrase-fd", str(descriptor))
    done = process(*arguments, cwd=tmp_path, pass_fds=[descriptor])
    os.close(descriptor)
    assert done.returncode == 0, done.stderr
    load_private_key(tmp_path / "asd.key", Secret(PASSPHRASE))


# -- the command line itself -------------------------------------------------------------------------------------


def options_of(group: Any) -> list[str]:
    found: list[str] = []
    for command in group.commands.values():
        found += options_of(command) if hasattr(command, "commands") else []
        found += [option for parameter in command.params for option in parameter.opts]
    return found


@pytest.mark.attack(43)
def test_no_option_takes_a_passphrase() -> None:
    named = {option for option in options_of(typer.main.get_command(app.app)) if "pass" in option or "secret" in option}
    assert named == {"--passphrase-file", "--passphrase-fd", "--no-passphrase"}


@pytest.mark.attack(43)
def test_what_others_can_read_of_the_process_holds_no_passphrase(tmp_path: Path) -> None:
    """The process waits for the second line of the prompt's answer; until then its command line can be looked at."""
    with Terminal(["keys", "generate", "--out", "asd"], cwd=tmp_path) as terminal:
        terminal.answer("New passphrase of", PASSPHRASE)
        terminal.wait_for("The same again: ")
        said = Path(f"/proc/{terminal.process.pid}/cmdline").read_bytes()
        assert said.split(b"\0")[-5:-1] == [b"keys", b"generate", b"--out", b"asd"]
        assert PASSPHRASE not in said
        terminal.answer("", PASSPHRASE)
        assert terminal.ended() == 0


# -- a real terminal ---------------------------------------------------------------------------------------------


class Terminal:
    """``asd-sweep`` on a pseudo-terminal of its own; standard output and standard error go there too."""

    def __init__(self, arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str] | None = None) -> None:
        self._ours, theirs = os.openpty()
        self.seen = b""
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", ON_A_TERMINAL, *PROGRAM, *arguments],
            cwd=cwd,
            env={**process_environment(environment), "TERM": "dumb"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def wait_for(self, words: str) -> None:
        """Read until ``words`` come."""
        while words.encode() not in self.seen:
            assert self._read(), f"{words!r} did not come: {self.seen!r}"

    def answer(self, prompt: str, typed: bytes) -> None:
        """Wait for a prompt that does not echo, and type."""
        self.wait_for(prompt)
        while termios.tcgetattr(self._ours)[3] & termios.ECHO:
            assert self.process.poll() is None
        os.write(self._ours, typed + b"\n")

    def ended(self) -> int:
        """The exit code, once everything was read."""
        while self._read():
            pass
        return self.process.wait(timeout=60)

    def _read(self) -> bytes:
        try:
            more = os.read(self._ours, 4096)
        except OSError:  # Linux says so when the other side is closed
            more = b""
        self.seen += more
        return more


def test_a_new_passphrase_is_asked_for_twice_and_not_shown(tmp_path: Path) -> None:
    with Terminal(["keys", "generate", "--out", "asd"], cwd=tmp_path) as terminal:
        terminal.answer("New passphrase of asd.key: ", PASSPHRASE)
        terminal.answer("The same again: ", PASSPHRASE)
        assert terminal.ended() == 0
    assert b"SHA256:" in terminal.seen
    assert PASSPHRASE not in terminal.seen
    load_private_key(tmp_path / "asd.key", Secret(PASSPHRASE))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (PASSPHRASE, b"something else", b"the two passphrases differ"),
        (b"short", None, b"at least 8 characters"),
        (b"", None, b"the passphrase was empty"),
    ],
)
def test_what_was_mistyped_makes_no_key(tmp_path: Path, first: bytes, second: bytes | None, expected: bytes) -> None:
    with Terminal(["keys", "generate", "--out", "asd"], cwd=tmp_path) as terminal:
        terminal.answer("New passphrase of asd.key: ", first)
        if second is not None:
            terminal.answer("The same again: ", second)
        assert terminal.ended() == 2
    assert expected in terminal.seen
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_at_the_prompt_leaves_nothing(tmp_path: Path) -> None:
    with Terminal(["keys", "generate", "--out", "asd"], cwd=tmp_path) as terminal:
        terminal.answer("New passphrase of asd.key: ", b"half a pass\x03")
        assert terminal.ended() == 130
    assert b"interrupted" in terminal.seen
    assert b"half a pass" not in terminal.seen
    assert list(tmp_path.iterdir()) == []


USE = """
import sys
from pathlib import Path
from sweeper.cli.keys import open_key
print(open_key(Path(sys.argv[1]), None, None).fingerprint)
"""


def test_at_use_the_passphrase_is_asked_for_once(
    tmp_path: Path, pairs: Mapping[str, KeyPair], monkeypatch: Any
) -> None:
    script = tmp_path / "use.py"
    script.write_text(USE)
    pair = pairs["ecdsa-p256"]
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", (sys.executable, "-P", str(script)))
    with Terminal([str(pair.private_path)], cwd=tmp_path) as terminal:
        terminal.answer(f"Passphrase of {pair.private_path}: ", PASSPHRASE)
        assert terminal.ended() == 0
    assert terminal.seen.count(b"assphrase") == 1
    assert pair.public.fingerprint.encode() in terminal.seen
