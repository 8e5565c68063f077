"""Consumers with the calls of other clients, over kwire: a program changes one import.

    from kwire.compat.confluent_kafka import Consumer
    from kwire.compat.kafka_python import KafkaConsumer
    from kwire.compat.aiokafka import AIOKafkaConsumer

Modules below have the names that they have there: `kafka.errors` is `kwire.compat.kafka_python.errors`.
What they leave out is told in docs/migration.md.
"""
