"""A fake Kafka cluster, written from the protocol and not from kwire's client. `limits` says what it does not do."""

from __future__ import annotations
