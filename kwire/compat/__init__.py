"""Adapters: consumers with the API of other clients, over kwire. A program changes one import.

    from kwire.compat.confluent_kafka import Consumer
    from kwire.compat.kafka_python import KafkaConsumer
    from kwire.compat.aiokafka import AIOKafkaConsumer

Submodules have the names of the other client's: `kafka.errors` is `kwire.compat.kafka_python.errors`.
docs/migration.md lists what the adapters leave out.
"""
