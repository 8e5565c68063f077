"""The checks, one module for each area. To add an area, add a module; `kwire.conformance.registry` finds it."""

from __future__ import annotations
