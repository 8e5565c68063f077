"""Collects what is wrong with settings, so that one error names all of it, and a long list is mended in one go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kwire.errors import ConfigError


class Problems:
    """Errors that do not keep the other settings from being looked at."""

    def __init__(self) -> None:
        self._found: list[ConfigError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Around what is done with one setting."""
        try:
            yield
        except ConfigError as error:
            self._found.append(error)

    def raise_them(self) -> None:
        """Raises: ConfigError, if there was one; of several, with a line for each."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            lines = (f"\n  {error}" for error in self._found)
            raise ConfigError(f"{len(self._found)} settings cannot be taken:{''.join(lines)}")
