"""A fake Kafka cluster, written from the protocol and not from kwire's client. `limits` lists what the cluster does not
do."""

from __future__ import annotations
