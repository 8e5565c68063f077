"""Which cells of `scripts/prove losses` make no sense, and why."""

from __future__ import annotations

from proofs.losses.faults import Fault
from proofs.losses.ways import Way

ONLY_FOR = {
    Fault.WORKER_KILLED: (
        {Way.POOL, Way.SPARK_BATCH, Way.SPARK_STREAM, Way.PIPELINE},
        "no process of its own handles a record",
    ),
    Fault.JVM_KILLED: ({way for way in Way if way.is_spark}, "it has no JVM"),
    Fault.EXECUTOR_CLOSED: ({Way.POOL}, "it has no executor"),
    Fault.DEAD_LETTERS_DOWN: ({Way.DEAD_LETTERS}, "it has no dead letters"),
}
NOT_FOR_COMMANDS = {
    Fault.BAD_VALUE: "it prints bytes as they are",
    Fault.BAD_KEY: "it prints bytes as they are",
    Fault.LISTENER: "it takes no listener",
    Fault.HANDLER_ONCE: "it takes no handler",
    Fault.HANDLER_ALWAYS: "it takes no handler",
    Fault.HANDLER_INTERRUPT: "it takes no handler",
    Fault.SIGINT_DESERIALIZER: "it deserializes nothing",
    Fault.ALARM: "it sets no alarm",
    Fault.ALARMS: "it sets no alarm",
    Fault.ALARMS_AT_FIRST: "it sets no alarm",
    Fault.FORK: "it does not fork",
}
NOT_FOR_SPARK = {
    Fault.BAD_KEY: "its keys stay bytes",
    Fault.LISTENER: "it is no member of a group",
    Fault.SIGINT_DESERIALIZER: "no Ctrl-C reaches the processes that decode",
    Fault.ALARM: "the processes that read are Spark's, and set no alarm",
    Fault.ALARMS: "the processes that read are Spark's, and set no alarm",
    Fault.ALARMS_AT_FIRST: "the processes that read are Spark's, and set no alarm",
    Fault.FORK: "the program has no consumer that a child could inherit",
}
NOT_FOR_TABLES = {
    Fault.HANDLER_ONCE: "it takes no handler",
    Fault.HANDLER_ALWAYS: "it takes no handler",
    Fault.HANDLER_INTERRUPT: "it takes no handler",
}


def why_not(way: Way, fault: Fault) -> str | None:
    """Why this cell makes no sense; None if it does."""
    if fault in ONLY_FOR:
        ways, reason = ONLY_FOR[fault]
        return None if way in ways else reason
    if way is Way.COMMAND:
        return NOT_FOR_COMMANDS.get(fault)
    if way.is_spark:
        return NOT_FOR_SPARK.get(fault) or (NOT_FOR_TABLES.get(fault) if way is Way.PIPELINE else None)
    if fault is Fault.HANDLER_ALWAYS and not way.is_processor:
        return "the program's own code handles the record, and decides"
    return None
