"""Numbers that say which of several came later, each a type of its own: they are all small integers, and a mix-up would
look like sense.

Leader epochs (KIP-320) are plain integers, as users and the protocol have them.
"""

from __future__ import annotations

from typing import NewType

AssignmentEpoch = NewType("AssignmentEpoch", int)
"""Which position of a partition: a seek, a reset or a new assignment begins another one. Records and answers of an
older one are dropped."""
