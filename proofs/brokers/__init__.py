"""Every broker there is, what it answers otherwise than Kafka 4.4, and what is decided about that."""
