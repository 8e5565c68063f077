"""The server's side of SASL: a mechanism a module, written from the RFCs and from what Kafka's brokers do."""
