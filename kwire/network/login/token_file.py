"""A token or an assertion in a file, which something else renews: an agent beside the process, or Kubernetes."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from kwire.config import OAuthToken
from kwire.network.login.arrival import MAX_TOKEN_BYTES
from kwire.network.login.failures import TokenRequestError


class TokenFile:
    """Reads the text of a file, and knows whether it has changed since."""

    def __init__(self, path: Path, setting: str) -> None:
        self.path = path
        self._setting = setting
        self._seen: tuple[int, int, int] | None = None

    def has_changed(self) -> bool:
        """Whether reading may give another text than the last time."""
        try:
            return self._state() != self._seen
        except OSError:
            return False  # between two versions of it, perhaps; who reads it next says that it is gone

    def read(self) -> str:
        """Raises: TokenRequestError, if there is no text that could be a token."""
        try:
            self._seen = self._state()  # before it is read: a change in between is seen later
            with self.path.open("rb") as file:
                data = file.read(MAX_TOKEN_BYTES + 1)
        except OSError as error:
            raise TokenRequestError(
                f"{self._setting}: {str(self.path)!r} cannot be read: {error.strerror}", is_certain=True
            ) from error
        if len(data) > MAX_TOKEN_BYTES:
            raise TokenRequestError(
                f"{self._setting}: {str(self.path)!r} is larger than a token can be, {MAX_TOKEN_BYTES} bytes",
                is_certain=True,
            )
        return data.decode("ascii", "replace").strip()

    def _state(self) -> tuple[int, int, int]:
        found = os.stat(self.path)
        return found.st_mtime_ns, found.st_size, found.st_ino


class FileTokens:
    """Reads tokens from the file that a `file://` URL names, as Java's FileJwtRetriever."""

    def __init__(self, url: str) -> None:
        self.file = TokenFile(Path(url2pathname(urlsplit(url).path)), "sasl_oauthbearer_token_endpoint_url")

    def __call__(self) -> OAuthToken:
        return OAuthToken(self.file.read())
