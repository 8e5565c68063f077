"""The tests of the peers that are not run, by name, and why."""

from __future__ import annotations

from collections.abc import Mapping

KAFKA_PYTHON: Mapping[str, str] = {
    "test_consumer": "looks into the client: `_client.cluster`",
    "test_group": "looks into the coordinator: `_coordinator.heartbeat`",
    "test_heartbeat_thread": "looks into the coordinator: `_coordinator.heartbeat`",
    "test_kafka_consumer_unsupported_encoding": "replaces a function of `kafka.codec`; kwire has codecs of its own",
    "test_kafka_version_infer": "`api_version` has no effect: brokers are asked what they speak, for each request",
}

_FETCHER = "looks into the fetcher: `_fetcher`, `PartitionRecords`"
_CLIENT = "looks into the client: `_client`"
_COORDINATOR = "looks into the coordinator: `_coordinator`"
_SUBSCRIPTION = "looks into the subscription: `_subscription`"
_REBALANCES = "the adapter rebalances inside `getone` and `getmany`; the test wants a rebalance without them"
_TEXT = "looks for the exact words of a message"

AIOKAFKA: Mapping[str, str] = {
    "test_consumer_arguments": f"{_TEXT}; and SSL without `ssl_context` trusts the system's authorities",
    "test_consumer_cleanup_unassigned_data_getmany": _FETCHER,
    "test_consumer_cleanup_unassigned_data_getone": _FETCHER,
    "test_consumer_compacted_topic": _FETCHER,
    "test_consumer_compressed_returns_older_msgs": _CLIENT,
    "test_consumer_context_manager": _FETCHER,
    "test_consumer_invalid_crc_in_records": _CLIENT,
    "test_consumer_position": _SUBSCRIPTION,
    "test_consumer_propagates_commit_refresh_errors": _COORDINATOR,
    "test_consumer_propagates_coordinator_errors": _COORDINATOR,
    "test_consumer_propagates_heartbeat_errors": _COORDINATOR,
    "test_consumer_rebalance_on_new_topic": _REBALANCES,
    "test_consumer_seek_backward": _FETCHER,
    "test_consumer_seek_forward_getmany": _FETCHER,
    "test_consumer_seek_forward_getone": _FETCHER,
    "test_consumer_subscribe_pattern_autocreate_no_group_id": "a pattern without a group is refused",
    "test_consumer_subscribe_pattern_with_autocreate": _CLIENT,
    "test_consumer_warn_unclosed": f"{_TEXT}; it is a ResourceWarning",
    "test_exclude_internal_topics": _CLIENT,
    "test_kafka_consumer_sets_coordinator_values": _COORDINATOR,
    "test_kip_345_disabled": f"{_SUBSCRIPTION}; {_REBALANCES}",
    "test_kip_345_enabled": f"{_SUBSCRIPTION}; {_REBALANCES}",
    "test_large_messages_getmany": "expects one fetch for each `getmany`; the adapter returns records of several",
    "test_max_poll_interval_ms": _REBALANCES,
    "test_offset_behavior__resuming_behavior": _REBALANCES,
    "test_offset_reset_manual": "the adapter reports a partition without an offset, whichever partition the call names",
    "test_rebalance_listener_no_deadlock_callbacks": "looks into the consumer: `_loop`",
    "test_rebalance_listener_with_coroutines": _COORDINATOR,
}


CONFLUENT_KAFKA_OTHERS = (
    "producer",
    "flush",
    "admin",
    "avro",
    "conf_none",
    "topic_config_update",
    "logging_constructor",
)
"""Words in the names of tests that have no consumer."""

CONFLUENT_KAFKA: Mapping[str, str] = {
    "test_basic_api": "expects that there is no broker: a seek fails, and the ends of the log are unknown",
    "test_callback_exception_no_system_error": "wants to hear within 0.1 s that a broker cannot be reached",
    "test_consumer_topicpartition_metadata": "tells empty metadata of a commit from none; kwire, like Java, does not",
    "test_kafkaError_unknown_error": "expects a KafkaError to be a KafkaException, which it is not in 2.16 either",
    "test_offsets_for_times": "expects that there is no broker: with one, librdkafka also returns `_UNKNOWN_PARTITION`",
}
