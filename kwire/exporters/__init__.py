"""Metrics and spans for others to collect: each module needs its extra, and nothing else of kwire imports it."""

from __future__ import annotations
