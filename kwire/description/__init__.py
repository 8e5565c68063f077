"""What a consumer says of itself to those who watch it: values, and the page that a person reads."""

from __future__ import annotations
