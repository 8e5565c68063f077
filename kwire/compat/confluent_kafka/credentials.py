"""The user name and password of a consumer, which the program may change while the consumer runs."""

from __future__ import annotations

from kwire.config import Secret


class ChangingCredentials:
    """A `CredentialsProvider`: kwire calls it before each login. Any thread may call `set`."""

    def __init__(self, username: str = "", password: str = "") -> None:
        self._now = username, Secret(password)

    def set(self, username: object, password: object) -> None:
        """Raises: TypeError, if these are not two texts."""
        for number, given in enumerate((username, password), 1):
            if not isinstance(given, str):
                raise TypeError(f"argument {number} must be str, not {type(given).__name__}")
        self._now = str(username), Secret(str(password))

    def __call__(self) -> tuple[str, Secret]:
        return self._now
