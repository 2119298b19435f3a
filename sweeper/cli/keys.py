"""``asd-sweep keys``: make a signing key, show one, look for private keys where none should be.

Also how commands that sign get their key open: the passphrase options and ``open_key``.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from studies.errors import AsdSweepError, UsageError
from sweeper.cli.options import JsonOption, examples
from sweeper.cli.output import emit_json, err, out
from sweeper.cli.refusals import refusals_as_errors

if TYPE_CHECKING:
    from sweeper.artifact.keys import PublicKey
    from sweeper.freeze.passphrases import PassphraseSource
    from sweeper.freeze.private_keys import PrivateKey

keys_app = typer.Typer(no_args_is_help=True, help="Make signing keys, show them, look for stray private keys.")

MAX_SHOWN_BYTES = 16 * 1024

KeyOption = Annotated[Path, typer.Option("--key", metavar="FILE", help="Private key that signs (NAME.key).")]
PassphraseFileOption = Annotated[
    Path | None,
    typer.Option("--passphrase-file", metavar="FILE", help="Take the passphrase from the first line of this file."),
]
PassphraseFdOption = Annotated[
    int | None,
    typer.Option("--passphrase-fd", metavar="N", help="Take it from this open file descriptor; 0 is standard input."),
]


def register(app: typer.Typer) -> None:
    """Add ``keys generate|show|check`` to ``app``."""
    app.add_typer(keys_app, name="keys")


def passphrase_from(passphrase_file: Path | None, passphrase_fd: int | None) -> "PassphraseSource":
    """Where the options say that the passphrase is. Raises UsageError when they say two things."""
    from sweeper.freeze.passphrases import PassphraseSource

    return PassphraseSource(passphrase_file, passphrase_fd, warn=warn)


def open_key(key: Path, passphrase_file: Path | None, passphrase_fd: int | None) -> "PrivateKey":
    """The signing key of ``--key``; asks for its passphrase when it has one that is not given otherwise.

    Raises UsageError and ArtifactRefusedError.
    """
    from sweeper.freeze.passphrases import unlock

    source = passphrase_from(passphrase_file, passphrase_fd)
    with refusals_as_errors():
        return unlock(key, source)


def warn(sentence: str) -> None:
    """One line of warning on standard error."""
    err.print(f"asd-sweep: warning: {sentence}", markup=False, soft_wrap=True)


@keys_app.command(
    "generate",
    epilog=examples(
        "asd-sweep keys generate --out ~/.config/asd-sweep/asd",
        "asd-sweep keys generate --out asd --gitignore --comment 'release key 2027'",
        "asd-sweep keys generate --out ci --passphrase-fd 3 3< passphrase.txt",
    ),
)
def generate_command(
    name: Annotated[
        Path, typer.Option("--out", metavar="NAME", help="Write NAME.key (0600) and NAME.pub (0644).")
    ] = Path("asd"),
    algorithm: Annotated[
        Literal["ecdsa-p256", "ed25519"], typer.Option("--alg", help="cosign reads ecdsa-p256 only.")
    ] = "ecdsa-p256",
    no_passphrase: Annotated[bool, typer.Option("--no-passphrase", help="Leave the key unencrypted.")] = False,
    passphrase_file: PassphraseFileOption = None,
    passphrase_fd: PassphraseFdOption = None,
    comment: Annotated[str, typer.Option(help="A line of text at the top of NAME.pub.")] = "",
    gitignore: Annotated[
        bool, typer.Option("--gitignore", help="Inside a git work tree: add NAME.key to .gitignore first.")
    ] = False,
    json_wanted: JsonOption = False,
) -> None:
    """Make a key pair: NAME.key to sign with, NAME.pub to give away.

    The key is encrypted with a passphrase, asked for twice unless it is given by file, descriptor or
    ASD_SWEEP_PASSPHRASE. Nothing is overwritten. Inside a git work tree the key's path must be one that git ignores.
    """
    from sweeper.freeze.passphrases import new_passphrase
    from sweeper.freeze.private_keys import generate, key_paths

    name = name.expanduser()
    private_path, _ = key_paths(name)
    source = passphrase_from(passphrase_file, passphrase_fd)
    if no_passphrase and (passphrase_file is not None or passphrase_fd is not None):
        raise UsageError("--no-passphrase and a passphrase exclude each other; leave one out")
    _keep_out_of_git(private_path, gitignore=gitignore)
    with refusals_as_errors():
        _refuse_existing(*key_paths(name))  # before anyone types a passphrase
        passphrase = None if no_passphrase else new_passphrase(source, f"New passphrase of {private_path}: ")
        pair = generate(name, algorithm=algorithm, passphrase=passphrase, comment=comment)
    if json_wanted:
        emit_json(
            {
                "private_key": str(pair.private_path),
                "public_key": str(pair.public_path),
                "encrypted": passphrase is not None,
                **_public_json(pair.public),
            }
        )
        return
    encrypted = "encrypted" if passphrase is not None else "NOT encrypted"
    _say(f"{pair.private_path}  private key, {encrypted}, mode 0600: keep it, and a copy of it, to yourself")
    _say(f"{pair.public_path}  public key: asd-sweep trust add {pair.public_path}")
    _say(f"{pair.public.algorithm}  {pair.public.fingerprint}")


@keys_app.command("show", epilog=examples("asd-sweep keys show asd.pub", "asd-sweep keys show asd.pub --json"))
def show_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A public key (NAME.pub).")],
    json_wanted: JsonOption = False,
) -> None:
    """Show a public key's fingerprint and kind, and how to get the same fingerprint with openssl.

    A private key is not opened: its NAME.pub says the same without a passphrase.
    """
    from sweeper.artifact.keys import load_public_key
    from sweeper.freeze.private_keys import PUBLIC_SUFFIX, holds_private_key

    data = _bytes_of(file)
    if holds_private_key(data):
        beside = file.with_suffix(PUBLIC_SUFFIX)
        way = f"show {beside}" if beside.is_file() else f"make its public half: openssl pkey -in {file} -pubout"
        raise UsageError(f"{file} is a private key and was not opened; {way}")
    with refusals_as_errors():
        key = load_public_key(data)
    if json_wanted:
        emit_json({"file": str(file), "openssl": _one_liner(file), **_public_json(key)})
        return
    _say(f"{key.fingerprint}  {key.algorithm}  {file}")
    _say(f"the same with openssl: {_one_liner(file)}")


@keys_app.command(
    "check",
    epilog=examples(
        "asd-sweep keys check", "asd-sweep keys check . /var/log/asd-sweep --history", "asd-sweep keys check --json"
    ),
)
def check_command(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="Folders and files. Default: the working folder.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Also every object that git keeps, branches or not.")
    ] = False,
    known: Annotated[
        list[Path] | None, typer.Option("--except", metavar="FILE", help="A private key that is there on purpose.")
    ] = None,
    json_wanted: JsonOption = False,
) -> None:
    """Look for private keys in folders, logs and git's index; exit code 1 when there are any.

    Finds PEM blocks, also escaped in logs, in UTF-16 and in base64. Does not see DER files, archives or what is
    compressed. What cannot be read counts against the result.
    """
    from sweeper.freeze.key_scan import scan

    result = scan(paths or [Path()], history=history, known=known or [])
    if json_wanted:
        findings = [
            {"where": found.where, "place": found.place, "byte": found.byte, "kind": found.kind}
            for found in result.findings
        ]
        emit_json({"clean": result.clean, "files": result.files, "findings": findings, "unread": list(result.unread)})
    else:
        for found in result.findings:
            _say(f"{found.where}: {found.place} at byte {found.byte}: {found.kind}")
        for place in result.unread:
            _say(f"not read: {place}")
        count = len(result.findings)
        verdict = f"{count} private key{'s' if count > 1 else ''}" if count else "no private key"
        _say(f"{verdict} in {result.files} files" + (f", {len(result.unread)} not read" if result.unread else ""))
    if not result.clean:
        raise typer.Exit(1)


def _refuse_existing(*paths: Path) -> None:
    from sweeper.artifact.errors import Refused

    for path in paths:
        if path.is_symlink() or path.exists():
            raise Refused("key-exists", f"{path} is there already and is never overwritten; choose another name")


def _keep_out_of_git(private_path: Path, *, gitignore: bool) -> None:
    """Raises UsageError when the key would lie in a git work tree at a path that git does not ignore."""
    from sweeper.freeze.key_scan import git_ignores, git_work_tree

    if not private_path.parent.is_dir():
        raise UsageError(f"there is no folder {private_path.parent}; make it first: mkdir -m 700 {private_path.parent}")
    tree = git_work_tree(private_path.parent)
    if tree is None or git_ignores(private_path):
        return
    if not gitignore:
        raise UsageError(
            f"{private_path} would lie in the git work tree {tree} and git does not ignore it; "
            "choose a place outside with --out, or add --gitignore"
        )
    _ignore(private_path)
    if not git_ignores(private_path):
        raise UsageError(f"git still does not ignore {private_path}; choose a place outside the work tree with --out")
    err.print(f"added {private_path.name} to {private_path.parent / '.gitignore'}", markup=False, soft_wrap=True)


def _ignore(private_path: Path) -> None:
    """Append the key's name to the .gitignore beside it."""
    special = "".join(f"\\{c}" if c in "\\*?[!# " else c for c in private_path.name)
    file = private_path.parent / ".gitignore"
    try:
        text = file.read_text("utf-8") if file.exists() else ""
        with file.open("a", encoding="utf-8") as lines:
            lines.write(f"{'' if not text or text.endswith(chr(10)) else chr(10)}/{special}\n")
    except (OSError, UnicodeDecodeError) as error:
        raise AsdSweepError(f"{file} cannot be changed: {error}; add the line /{special} yourself") from error


def _bytes_of(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_SHOWN_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}; expected a public key (NAME.pub)") from error


def _public_json(key: "PublicKey") -> dict[str, Any]:
    return {"algorithm": key.algorithm, "fingerprint": key.fingerprint}


def _one_liner(file: Path) -> str:
    from shlex import quote

    return f"openssl pkey -pubin -in {quote(str(file))} -outform DER | openssl dgst -sha256 -binary | base64"


def _say(line: str) -> None:
    out.print(line, markup=False, soft_wrap=True)
