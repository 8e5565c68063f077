"""What `AsyncConsumer` promises of event loops, tried on a real Kafka."""
