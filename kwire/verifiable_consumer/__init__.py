"""Kafka's VerifiableConsumer on kwire: `python -m kwire.verifiable_consumer` in place of the Java program.

Kafka's system tests steer a consumer by flags and signals and follow it by JSON lines. Flags, lines, exit codes and the
order of events are those of `org.apache.kafka.tools.VerifiableConsumer` 4.3, so that those tests, and any group with
members of both kinds, can run kwire as they run Java.
"""
