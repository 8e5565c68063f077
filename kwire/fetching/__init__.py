"""From fetch answers to what `Consumer.poll()` returns. No sockets, no threads; see each module."""

from __future__ import annotations
