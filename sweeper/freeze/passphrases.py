"""Where a passphrase comes from: a file, a file descriptor, the environment, or the person at the terminal.

Never the command line, which every user of a machine can read. Knows nothing of key files.
"""

import getpass
import os
import stat
import warnings
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from studies.errors import UsageError
from sweeper.freeze.private_keys import PrivateKey, Secret, load_private_key

PASSPHRASE = "ASD_SWEEP_PASSPHRASE"
MAX_PASSPHRASE_BYTES = 1024
MIN_NEW_CHARACTERS = 8

Warn = Callable[[str], None]


@dataclass(frozen=True)
class PassphraseSource:
    """Where the passphrase is said to be. file, descriptor: at most one. warn: takes what the user should know."""

    file: Path | None = None
    descriptor: int | None = None
    warn: Warn = field(default=lambda sentence: None, repr=False)

    def __post_init__(self) -> None:
        if self.file is not None and self.descriptor is not None:
            raise UsageError("--passphrase-file and --passphrase-fd exclude each other; give one of them")


def unlock(path: Path, source: PassphraseSource) -> PrivateKey:
    """Load a signing key; its passphrase is looked for, or asked for once, only when the key is encrypted.

    Raises UsageError and Refused as ``load_private_key`` and ``current_passphrase`` do.
    """
    return load_private_key(path, lambda: current_passphrase(source, f"Passphrase of {path}: "))


def current_passphrase(
    source: PassphraseSource, prompt: str, environment: MutableMapping[str, str] | None = None
) -> Secret:
    """The passphrase of an existing key: as told, else from the environment, else asked once.

    Raises UsageError when it cannot be had.
    """
    return _told(source, environment) or _asked(prompt)


def new_passphrase(
    source: PassphraseSource, prompt: str, environment: MutableMapping[str, str] | None = None
) -> Secret:
    """The passphrase of a key to be made: at the terminal it is asked twice.

    Raises UsageError when it is too short, or the two differ.
    """
    told = _told(source, environment)
    secret = told or _asked(prompt)
    if len(secret.reveal().decode("utf-8", "replace")) < MIN_NEW_CHARACTERS:
        raise UsageError(
            f"the passphrase must have at least {MIN_NEW_CHARACTERS} characters; use --no-passphrase for none at all"
        )
    if told is None and _asked("The same again: ").reveal() != secret.reveal():
        raise UsageError("the two passphrases differ; no key was made")
    return secret


def _told(source: PassphraseSource, environment: MutableMapping[str, str] | None) -> Secret | None:
    """The passphrase that needs no asking; the variable is removed, so that no child process inherits it."""
    values = os.environ if environment is None else environment
    inherited = values.pop(PASSPHRASE, None)
    if source.file is not None:
        return _from_file(source.file, source.warn)
    if source.descriptor is not None:
        return _from_descriptor(source.descriptor)
    if not inherited:
        return None
    source.warn(f"the passphrase was taken from {PASSPHRASE}; other processes of this user can read it there")
    return Secret(os.fsencode(inherited))


def _from_file(path: Path, warn: Warn) -> Secret:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a path"
        raise UsageError(f"--passphrase-file {path} cannot be read: {why}") from error
    try:
        facts = os.fstat(descriptor)
        if stat.S_ISREG(facts.st_mode) and facts.st_mode & 0o077:
            warn(f"others can reach the passphrase file {path} (mode {stat.S_IMODE(facts.st_mode):04o}); chmod 600 it")
        return _first_line(descriptor, f"--passphrase-file {path}")
    finally:
        os.close(descriptor)


def _from_descriptor(descriptor: int) -> Secret:
    if descriptor < 0 or descriptor in (1, 2):
        raise UsageError(f"--passphrase-fd must be 0, or 3 and up, got {descriptor}")
    return _first_line(descriptor, f"--passphrase-fd {descriptor}")


def _first_line(descriptor: int, source: str) -> Secret:
    data = b""
    try:
        while b"\n" not in data and len(data) <= MAX_PASSPHRASE_BYTES:
            more = os.read(descriptor, MAX_PASSPHRASE_BYTES + 1 - len(data))
            if not more:
                break
            data += more
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}") from error
    line = data.split(b"\n", 1)[0].removesuffix(b"\r")
    if not line:
        raise UsageError(f"{source} gave no passphrase; expected it on the first line")
    if len(line) > MAX_PASSPHRASE_BYTES:
        raise UsageError(f"{source} gave a line of more than {MAX_PASSPHRASE_BYTES} bytes; that is no passphrase")
    return Secret(line)


def _asked(prompt: str) -> Secret:
    """Ask at the terminal without echo; never reads what happens to be on standard input."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError as error:
        raise UsageError(
            "a passphrase is needed and there is no terminal to ask at; give --passphrase-file or --passphrase-fd"
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            typed = getpass.getpass(prompt)
        except getpass.GetPassWarning as error:
            raise UsageError("the terminal cannot hide what is typed; give --passphrase-file instead") from error
        except EOFError as error:
            raise UsageError("no passphrase was typed") from error
    if not typed:
        raise UsageError("the passphrase was empty; --no-passphrase makes a key without one")
    return Secret(os.fsencode(typed))
