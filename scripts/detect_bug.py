"""What a bug to plant is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """Args:
    name: what went wrong, in a few words with dashes.
    story: what users of it would see.
    file: below `kwire/`.
    """

    name: str
    story: str
    file: str
    old: str
    new: str

    @property
    def is_in_processing(self) -> bool:
        """Whether worlds whose members run a `Processor` have to find it, and not those whose members poll."""
        return self.file.startswith("processing/")
