"""Brokers of a run are special only where a fault of it wants that."""

from __future__ import annotations

from kwire.testing.faults.schedule_text import parse
from kwire.testing.faults.topic_settings import (
    OLDER_KAFKA,
    PERMISSION_SETTINGS,
    SECURED_PERMISSION_SETTINGS,
    broker_settings,
    storage_of,
)

PLAIN = parse("at 10s leader-move topic orders")
FORBIDDEN = parse("at 10s leader-move topic orders\nat 20s group-forbidden group")
DOWNGRADED = parse("at 10s rolling-downgrade all for 30s")


def test_permissions_are_asked_for_where_a_fault_takes_some_away() -> None:
    assert broker_settings(FORBIDDEN) == {**broker_settings(PLAIN), **PERMISSION_SETTINGS}
    assert not broker_settings(PLAIN).keys() & PERMISSION_SETTINGS.keys()


def test_members_that_log_in_do_so_where_permissions_are_asked_for_as_well() -> None:
    secured = broker_settings(FORBIDDEN, secured=True)
    assert secured == {**broker_settings(PLAIN, secured=True), **SECURED_PERMISSION_SETTINGS}
    assert "CLIENT:SASL_SSL" in secured["listener.security.protocol.map"].split(",")
    (ends,) = broker_settings(PLAIN, secured=True).keys() - broker_settings(PLAIN).keys()
    assert ends == "listener.name.client.scram-sha-256.connections.max.reauth.ms"


def test_the_storage_is_older_where_brokers_become_so() -> None:
    assert storage_of(DOWNGRADED) == OLDER_KAFKA
    assert storage_of(PLAIN) is None
