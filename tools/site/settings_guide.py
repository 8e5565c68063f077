"""When to change which setting: what `docs/settings.md` says beside what kwire itself knows of each.

A test fails if a setting is missing here, or one is here that is none.
"""

from __future__ import annotations

from collections.abc import Mapping

GUIDE: Mapping[str, Mapping[str, str]] = {
    "Brokers and identity": {
        "bootstrap_servers": "Always. Name two or three brokers: then the program starts while one is down.",
        "client_dns_lookup": "When Kerberos needs the brokers' canonical names.",
        "client_id": "To find this client in the brokers' logs, quotas and metrics.",
        "client_rack": "To this client's rack or zone, if traffic between zones costs money or time. "
        "The brokers need `replica.selector.class`: `org.apache.kafka.common.replica.RackAwareReplicaSelector`.",
    },
    "The group": {
        "group_id": "To share partitions with other members, or to continue where the last run stopped.",
        "group_protocol": 'To `"consumer"`, if all brokers are 4.0 or newer: only partitions that move stop.',
        "group_instance_id": "When members restart often, and are to keep their partitions.",
        "partition_assignment_strategy": 'To `"cooperative-sticky"`, so that members read on during a rebalance.',
        "group_remote_assignor": 'To `"range"`, if a member is to get the same partition numbers of several topics, '
        "or to an assignor that your brokers have.",
        "session_timeout_ms": "Lower, to notice a dead member sooner. Higher, if C code holds the interpreter long.",
        "heartbeat_interval_ms": "With `session_timeout_ms`; keep it at most a third of that.",
        "max_poll_interval_ms": "Higher, if the work on one poll can take longer than five minutes.",
        "enable_async_revocation": "When work on a revoked partition must not hold up the other partitions.",
        "enable_parallel_rebalance": "When new records matter more than their order after a crash.",
        "parallel_rebalance_min_lag_records": "Higher, if a short backlog is better read in order.",
        "parallel_rebalance_min_lag_ms": "When a short backlog is worth a child cursor once it is old.",
        "parallel_rebalance_head_share": "Higher: new records sooner. Lower: the backlog is read sooner.",
        "parallel_rebalance_children": "Higher, if one cursor does not fill the network.",
    },
    "Offsets": {
        "auto_offset_reset": 'To `"earliest"`, if every record counts. To `"by_duration:PT6M"`, if old records do not, '
        'but the first ones of a new partition do. To `"none"`, if your program decides.',
        "enable_auto_commit": "To `False`, if you commit by hand, or with a `Processor`.",
        "auto_commit_interval_ms": "Lower: fewer records come again after a crash. Higher: fewer commits.",
        "isolation_level": 'To `"read_committed"`, if producers use transactions.',
    },
    "Records": {
        "key_deserializer": "To get other values than bytes.",
        "value_deserializer": "To get other values than bytes.",
        "max_poll_records": "Higher, such as 10,000, for speed; lower, if the work on one record is long.",
        "check_crcs": "Hardly ever: the check is cheap, and finds damage.",
    },
    "Fetching": {
        "fetch_min_bytes": "Higher, for fewer and larger answers, at the price of latency.",
        "fetch_max_wait_ms": "With `fetch_min_bytes`: it limits how long a record may be delayed.",
        "fetch_max_bytes": "Lower, if memory is short.",
        "max_partition_fetch_bytes": "Higher, to 16 MiB, if brokers are far away; lower, if memory is short.",
        "fetch_buffer_bytes": "Higher, if polls wait for fetches; lower, if memory is short.",
    },
    "Metadata": {
        "metadata_max_age_ms": "Lower, to find new topics of a pattern sooner.",
        "allow_auto_create_topics": "To `False`, if a misspelt name must not create a topic.",
        "metadata_recovery_strategy": "To `none`, if the bootstrap servers are no longer the cluster's.",
        "metadata_recovery_rebootstrap_trigger_ms": "Lower, if brokers are replaced at new addresses often.",
        "metadata_cluster_check_enable": "To `False`, if a proxy answers for brokers under other ids.",
        "exclude_internal_topics": "To `False`, to read `__consumer_offsets` by a pattern.",
    },
    "Time": {
        "default_api_timeout_ms": "To bound look-ups and commits that have no `timeout=`.",
        "request_timeout_ms": "Higher on slow networks; keep it above `fetch_max_wait_ms`.",
        "close_timeout_ms": "Lower, if the process is killed soon after SIGTERM.",
        "retry_backoff_ms": "Higher, to spare brokers that are in trouble.",
        "retry_backoff_max_ms": "With `retry_backoff_ms`.",
        "reconnect_backoff_ms": "Higher, if many clients connect to a broker that comes back.",
        "reconnect_backoff_max_ms": "With `reconnect_backoff_ms`.",
    },
    "Metrics": {
        "metrics_num_samples": "For smoother rates.",
        "metrics_sample_window_ms": "To the interval at which you look.",
        "enable_metrics_push": "To `False`, if operators are not to get this client's metrics.",
    },
    "Events": {
        "on_event": "To get lost data, lag, outages and failing heartbeats as events ([events](events.md)).",
        "event_lag_records": "To the lag that is too large.",
    },
    "Connections": {
        "socket_connection_setup_timeout_ms": "Higher on slow networks.",
        "socket_connection_setup_timeout_max_ms": "Higher on slow networks.",
        "connections_max_idle_ms": "Below what a load balancer in between allows.",
        "receive_buffer_bytes": "When the system does not choose well on long, fast links.",
        "send_buffer_bytes": "Hardly ever: a consumer sends little.",
    },
    "TLS": {
        "security_protocol": "Whenever the listener wants TLS or a login.",
        "ssl_truststore_location": "When the brokers' certificates come from an authority of your own.",
        "ssl_truststore_certificates": "The same, when the text comes from a secret store.",
        "ssl_truststore_type": "Never: it is there for properties files of Java.",
        "ssl_keystore_location": "When brokers want a client certificate.",
        "ssl_keystore_certificate_chain": "The same, when the text comes from a secret store.",
        "ssl_keystore_key": "With `ssl_keystore_certificate_chain`.",
        "ssl_keystore_type": "Never: it is there for properties files of Java.",
        "ssl_key_password": "When the private key is encrypted.",
        "ssl_endpoint_identification_algorithm": "To `none`, if certificates do not name the brokers' addresses.",
        "ssl_enabled_protocols": "To `TLSv1.3` alone, if your company's rules ask for it.",
        "ssl_context": "For anything else: ciphers, revocation lists, hardware keys.",
    },
    "SASL": {
        "sasl_mechanism": "To a mechanism of the listener; with a user name it has to be set.",
        "sasl_username": "For PLAIN and SCRAM.",
        "sasl_password": "For PLAIN and SCRAM; read it from the environment or a file.",
        "sasl_credentials_provider": "When user name or password change while the program runs.",
        "sasl_jaas_config": "When a properties file already has it.",
        "sasl_kerberos_service_name": "When the brokers' Kerberos service is not `kafka`.",
        "sasl_oauth_token_provider": "When your own code, or a cloud's library, makes tokens.",
    },
    "Tokens from a login server": {
        "sasl_oauthbearer_token_endpoint_url": "For OAUTHBEARER without code of your own.",
        "sasl_oauthbearer_client_credentials_client_id": "With a client's id and secret.",
        "sasl_oauthbearer_client_credentials_client_secret": "With a client's id and secret.",
        "sasl_oauthbearer_scope": "When the login server wants one.",
        "sasl_oauthbearer_header_urlencode": "When id or secret have characters that the server wants encoded.",
        "sasl_oauthbearer_jwt_retriever_class": "When a properties file already has it.",
        "sasl_oauthbearer_assertion_file": "When something else writes a signed assertion, as Kubernetes does.",
        "sasl_oauthbearer_assertion_private_key_file": "To sign assertions instead of sending a secret.",
        "sasl_oauthbearer_assertion_private_key_passphrase": "When that key is encrypted.",
        "sasl_oauthbearer_assertion_algorithm": "To `ES256`, with a key on a curve.",
        "sasl_oauthbearer_assertion_template_file": "When the server wants further claims or headers.",
        "sasl_oauthbearer_assertion_claim_aud": "When assertions are signed: who they are for.",
        "sasl_oauthbearer_assertion_claim_iss": "When assertions are signed: who makes them.",
        "sasl_oauthbearer_assertion_claim_sub": "When assertions are signed: whom they are about.",
        "sasl_oauthbearer_assertion_claim_jti_include": "When the server takes each assertion once.",
        "sasl_oauthbearer_assertion_claim_exp_seconds": "Lower, if the server wants short ones.",
        "sasl_oauthbearer_assertion_claim_nbf_seconds": "Higher, if clocks differ more.",
        "sasl_login_connect_timeout_ms": "Higher, if the login server is far away.",
        "sasl_login_read_timeout_ms": "Higher, if the login server is slow.",
        "sasl_login_retry_backoff_ms": "Higher, to spare the login server.",
        "sasl_login_retry_backoff_max_ms": "Higher, to spare the login server.",
        "sasl_login_refresh_window_factor": "Lower, to renew tokens earlier.",
        "sasl_login_refresh_window_jitter": "Higher, if many clients renew at the same time.",
        "sasl_login_refresh_min_period_seconds": "With tokens that live for minutes.",
        "sasl_login_refresh_buffer_seconds": "With tokens that live for minutes.",
    },
}
