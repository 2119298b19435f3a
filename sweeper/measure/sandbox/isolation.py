"""How programs can be held on this machine: the bubblewrap command line, or a refusal that says what is missing.

Knows nothing of results. Programs get a read-only /usr, an empty /tmp that vanishes, no network, no /proc, no
capabilities and, where we may choose, a user id of their own.
"""

import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from studies.errors import UsageError

_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
_SYSTEM_FOLDERS = ("/lib", "/lib64", "/lib32", "/bin")
_TRIAL_SECONDS = 30
_USER_IDS = range(20_000, 60_000)  # inside the 65,536 that containers map
TMP_BYTES = 16 * 2**20

# no sites, no user packages; the environment is empty but for this. A fixed hash seed keeps the order of sets, so that
# one text always gets one verdict; Python's -I would ignore it.
PYTHON_OPTIONS = ("-s", "-S", "-B")
ENVIRONMENT = {"PATH": "/usr/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class Isolation:
    """kind: "bubblewrap", or "none" where that was asked for. command: what comes before Python's own arguments."""

    kind: Literal["bubblewrap", "none"]
    command: tuple[str, ...]


def find_isolation(*, unsafe_exec: bool = False) -> Isolation:
    """The isolation for this machine; "none" only with ``unsafe_exec``, and only where bubblewrap does not work.

    Raises UsageError without a system Python, and without a bubblewrap that works unless ``unsafe_exec``.
    """
    python = next((path for path in _PYTHONS if Path(path).exists()), None)
    if python is None:
        raise UsageError(f"programs are run by the system's Python and there is none at {' or '.join(_PYTHONS)}")
    bwrap = shutil.which("bwrap")
    problem = "bubblewrap (bwrap) is not installed" if bwrap is None else _problem(bwrap, python)
    if bwrap is not None and problem is None:
        return Isolation("bubblewrap", _command(bwrap, python))
    if unsafe_exec:
        return Isolation("none", (python, *PYTHON_OPTIONS))
    raise UsageError(
        f"generated programs are run only inside bubblewrap, and {problem}; install it "
        "(Debian, Ubuntu: apt-get install bubblewrap), or accept that they run with your rights and give --unsafe-exec"
    )


def own_user() -> dict[str, Any]:
    """Arguments of Popen that give a run a user id of its own: where we are root, whose processes no limit counts."""
    if os.geteuid() != 0:
        return {}
    number = _USER_IDS.start + secrets.randbelow(len(_USER_IDS))
    return {"user": number, "group": number, "extra_groups": []}


@lru_cache(maxsize=4)
def _problem(bwrap: str, python: str) -> str | None:
    """None when a trial program runs; else what bubblewrap said."""
    try:
        trial = subprocess.run(
            [*_command(bwrap, python), "-c", ""],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TRIAL_SECONDS,
            check=False,
            **own_user(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{bwrap} does not run ({error})"
    if trial.returncode == 0:
        return None
    said = " ".join(trial.stderr.split())[:200] or f"exit code {trial.returncode}"
    return f"{bwrap} cannot make a sandbox here ({said})"


@lru_cache(maxsize=4)
def _command(bwrap: str, python: str) -> tuple[str, ...]:
    held = ["--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    for name, value in ENVIRONMENT.items():
        held += ["--setenv", name, value]
    files = ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for folder in map(Path, _SYSTEM_FOLDERS):
        if folder.is_symlink():
            files += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            files += ["--ro-bind", str(folder), str(folder)]
    limited = "--size" in subprocess.run([bwrap, "--help"], capture_output=True, text=True, check=False).stdout
    files += ["--dev", "/dev", "--remount-ro", "/dev"]
    files += ["--size", str(TMP_BYTES), "--tmpfs", "/tmp"] if limited else ["--dir", "/tmp"]
    files += ["--chdir", "/tmp", "--remount-ro", "/"]
    return (bwrap, *held, *files, python, *PYTHON_OPTIONS)
