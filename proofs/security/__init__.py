"""`scripts/prove security`: TLS and every login, on a real Kafka, beside other clients."""
