"""Kafka's VerifiableConsumer on kwire: `python -m kwire.verifiable_consumer` in place of the Java program.

Kafka's system tests control a consumer by flags and signals, and follow it by JSON lines. Flags, lines, exit codes and
the order of events are those of `org.apache.kafka.tools.VerifiableConsumer` 4.3, so that those tests can run kwire in
place of Java, also in one group with it.
"""
