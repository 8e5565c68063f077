"""What a bug to plant is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A line of kwire, and one with a mistake that stands in its place.

    Args:
        name: what went wrong, in a few words with dashes.
        story: what users of it would see.
        file: below `kwire/`.
        in_catch_up: Whether worlds of crash orders have to find it.
    """

    name: str
    story: str
    file: str
    old: str
    new: str
    in_catch_up: bool = False

    @property
    def is_in_processing(self) -> bool:
        """Whether worlds whose members run a `Processor` have to find it, and not those whose members poll."""
        return self.file.startswith("processing/")

    @property
    def worlds(self) -> str:
        """The kind of worlds that have to find it, as `worker.py` calls them."""
        return "processing" if self.is_in_processing else "crashing" if self.in_catch_up else "polling"
