"""How each fault of the catalogue is carried out on an arena, and healed. `table.py` has them all by name."""

from __future__ import annotations
