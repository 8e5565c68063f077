"""The tests that confluent-kafka, kafka-python and aiokafka have of their consumers, run over kwire's adapters."""
