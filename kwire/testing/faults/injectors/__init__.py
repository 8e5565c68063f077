"""How each fault of the catalogue is carried out on a testbed, and healed. `table.py` has them all by name."""

from __future__ import annotations
