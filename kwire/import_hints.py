"""Names that programs import from `kwire` by habit, and where they are: other clients' names, and kwire's own in its
packages. Read only when such a name was not found."""

from __future__ import annotations

from collections.abc import Collection, Mapping

_ONLY_READS = "kwire only reads; confluent-kafka, kafka-python and aiokafka have producers"
_NO_ADMIN = (
    "kwire only reads; confluent-kafka and kafka-python have admin clients, and the command `kwire` shows groups"
)
_LISTENER = "kwire's is RebalanceListener, or AsyncRebalanceListener; subscribe() also takes functions"

# By package, names of kwire's own.
HOMES: Mapping[str, tuple[str, ...]] = {
    "kwire.processing": (
        "Processor",
        "Retry",
        "OnFailure",
        "OnDataLoss",
        "Ordering",
        "DeadLetter",
        "dead_letter_topic",
    ),
    "kwire.deserializers": (
        *("AvroDeserializer", "JsonDeserializer", "JsonSchemaDeserializer", "ProtobufDeserializer"),
        *("StringDeserializer", "BytesDeserializer", "IntegerDeserializer", "LongDeserializer", "DoubleDeserializer"),
        *("BooleanDeserializer", "FloatDeserializer", "ShortDeserializer", "UUIDDeserializer", "SerializationContext"),
    ),
    "kwire.testing": ("Cluster", "NewRecord"),
    "kwire.transactions": ("send_offsets_to_transaction",),
    "kwire.assignors": ("Assignor",),
    "kwire.exporters.prometheus": ("ConsumerCollector",),
}
# By name, what there is in kwire in the place of another client's.
OTHER_NAMES: Mapping[str, str] = {
    "KafkaConsumer": "kwire's own is Consumer; kwire.compat.kafka_python has a KafkaConsumer",
    "AIOKafkaConsumer": "kwire's own is AsyncConsumer; kwire.compat.aiokafka has an AIOKafkaConsumer",
    "AIOConsumer": "kwire's own is AsyncConsumer; kwire.compat.confluent_kafka.aio has an AIOConsumer",
    "AsyncKafkaConsumer": "kwire's own is AsyncConsumer",
    "DeserializingConsumer": "Consumer takes key_deserializer= and value_deserializer=",
    **dict.fromkeys(("Producer", "KafkaProducer", "AIOKafkaProducer", "AIOProducer", "AsyncProducer"), _ONLY_READS),
    **dict.fromkeys(("SerializingProducer", "ProducerRecord"), _ONLY_READS),
    **dict.fromkeys(("AdminClient", "KafkaAdminClient", "AIOKafkaAdminClient", "NewTopic"), _NO_ADMIN),
    **dict.fromkeys(("ConsumerRebalanceListener", "AsyncConsumerRebalanceListener"), _LISTENER),
    **dict.fromkeys(("Message", "ConsumerRecord"), "kwire's is Record"),
    "ConsumerRecords": "kwire's is Records",
    "KafkaException": "kwire's is KafkaError, the base class of all its exceptions",
    **dict.fromkeys(("TimeoutException", "TimeoutError"), "kwire's is KafkaTimeoutError"),
    **dict.fromkeys(("NoBrokersAvailable", "KafkaConnectionError"), "kwire's are BootstrapError and DisconnectError"),
    "WakeupException": "kwire's is WakeupError",
    "ConsumerStoppedError": "after wakeup(), poll() raises a WakeupError",
    "SchemaRegistryClient": "those of kwire.deserializers take the registry's address, or confluent-kafka's client",
    **dict.fromkeys(
        ("OFFSET_BEGINNING", "OFFSET_END"),
        "seek_to_beginning(partitions) and seek_to_end(partitions) do what these offsets say",
    ),
    "OFFSET_STORED": "an assigned partition begins at its committed offset",
}


def import_hint(name: str, known: Collection[str]) -> str | None:
    """What the error says to somebody who wants this name of `kwire`; None if nobody has it.

    Args:
        name: Which is not there.
        known: The names that are.
    """
    if home := next((package for package, names in HOMES.items() if name in names), None):
        return f"{name} is in {home}: from {home} import {name}"
    instead, error = OTHER_NAMES.get(name), f"{name.removesuffix('Exception')}Error"
    if instead is None and name.endswith("Exception") and error in known:
        instead = f"kwire's is {error}"
    return instead and f"kwire has no {name}: {instead}"
