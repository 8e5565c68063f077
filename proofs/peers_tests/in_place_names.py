"""Names that the command shares with its plugin, which is imported in another process."""

from __future__ import annotations

PLUGIN = "proofs.peers_tests.in_place"
PEER, SERVERS, KAFKA = "KWIRE_PEER", "KWIRE_BOOTSTRAP_SERVERS", "KAFKA_VERSION"
TLS_SERVERS, TLS_FILES = "KWIRE_TLS_SERVERS", "KWIRE_TLS_FILES"
LEFT_OUT = "left out: "
