"""What the command and its plugin, which is imported in another process, have to agree on."""

from __future__ import annotations

PLUGIN = "proofs.peers_tests.in_place"
PEER, SERVERS, KAFKA = "KWIRE_PEER", "KWIRE_BOOTSTRAP_SERVERS", "KAFKA_VERSION"
LEFT_OUT = "left out: "
