"""A vLLM server that is asked over HTTP, as a stranger asks: nothing it answers is trusted to be sane.

Reads only; follows no redirect, so that an API key goes nowhere but to the server it was given for. Knows nothing of
what is asked for.
"""

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from studies.errors import AsdSweepError, UsageError

STATUS = "/v1/asd/status"
TIMEOUT_SECONDS = 10
MAX_BYTES = 16 * 2**20
MAX_KEY_BYTES = 4096


class ServerError(AsdSweepError):
    """The server cannot be reached, or does not answer as one with the serving plugin does."""


class Server:
    """A server's address, and how it is asked."""

    def __init__(self, url: str, *, api_key: str | None = None) -> None:
        """Raises UsageError for what is no http or https address."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UsageError("--server must be an address such as http://localhost:8000 (http or https)")
        if "@" in parts.netloc:
            raise UsageError("--server must not hold a user name or password; use --api-key-file")
        if not parts.hostname.isascii() or not parts.path.isascii():
            raise UsageError("--server must be plain ASCII")
        self.base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"
        self._api_key = api_key
        self._opener = urllib.request.build_opener(_NoRedirects)

    def fetch(self, path: str) -> str:
        """The text under a path. Raises ServerError in one line."""
        url = self.base + path
        request = urllib.request.Request(url)
        if self._api_key is not None:
            request.add_unredirected_header("Authorization", f"Bearer {self._api_key}")
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                data = bytes(response.read(MAX_BYTES + 1))
        except urllib.error.HTTPError as error:
            raise ServerError(f"{url} answered {error.code}{_advice(error.code)}") from error
        except (OSError, ValueError) as error:
            raise ServerError(f"{self.base} cannot be reached: {cause_of(error)}") from error
        if len(data) > MAX_BYTES:
            raise ServerError(f"{url} answered more than {MAX_BYTES // 2**20} MiB; is this a vLLM server?")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ServerError(f"{url} did not answer in UTF-8; is this a vLLM server?") from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Refuse; the answer is then an HTTPError with the redirect's code."""


def read_api_key(file: Path) -> str:
    """The first line of a key file. Raises UsageError without saying what is in it."""
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_KEY_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--api-key-file {file} cannot be read: {error.strerror}") from error
    key = data.split(b"\n", 1)[0].strip()
    if not key or len(data) > MAX_KEY_BYTES or not key.isascii() or not key.decode("ascii").isprintable():
        raise UsageError(f"--api-key-file {file} must hold a key on its first line, in printable ASCII")
    return key.decode("ascii")


def _advice(code: int) -> str:
    if code in (401, 403):
        return "; give the server's key with --api-key-file"
    if code == 404:
        return "; is asd_serving named in the server's VLLM_PLUGINS?"
    if 300 <= code < 400:
        return "; redirects are not followed, give the final address"
    return ""


def cause_of(error: Exception) -> str:
    """An error in words that are safe to print."""
    reason = getattr(error, "reason", error)
    return ascii(" ".join(str(reason).split()))[1:-1][:200] or type(error).__name__
