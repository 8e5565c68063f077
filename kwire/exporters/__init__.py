"""Exporters of metrics and spans. Each module needs its extra, and no other part of kwire imports it."""

from __future__ import annotations
