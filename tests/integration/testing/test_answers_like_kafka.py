"""The in-process cluster and Kafka are asked the same odd things about logs and transactions, and answer the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.conformance.broker import JudgedBroker
from kwire.conformance.client import BrokerAddress
from kwire.conformance.writing import produce_request
from kwire.conformance.writing import the_partition as produced
from kwire.errors import KafkaError
from kwire.protocol.error_codes import ErrorCode
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.kafkas import SharedKafka
    from tests.integration.testing.log_scenarios import LOG_SCENARIOS
    from tests.integration.testing.transaction_scenarios import TRANSACTION_SCENARIOS
else:
    from log_scenarios import LOG_SCENARIOS
    from transaction_scenarios import TRANSACTION_SCENARIOS

pytestmark = pytest.mark.only("kafka", reason="both are compared")

TIMEOUT_S = 10.0
SCENARIOS = {**LOG_SCENARIOS, **TRANSACTION_SCENARIOS}


@pytest.fixture(scope="module")
def real(kafka: SharedKafka) -> JudgedBroker:
    return JudgedBroker(BrokerAddress.parse(kafka.bootstrap_servers.partition(",")[0]), TIMEOUT_S)


@pytest.fixture(scope="module")
def fake() -> Iterator[JudgedBroker]:
    with Cluster() as cluster:
        yield JudgedBroker(BrokerAddress.parse(cluster.bootstrap_servers), TIMEOUT_S)


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_answer_alike(real: JudgedBroker, fake: JudgedBroker, name: str) -> None:
    assert SCENARIOS[name](fake) == SCENARIOS[name](real)


def test_only_the_real_one_is_silent_about_null_instead_of_records(real: JudgedBroker, fake: JudgedBroker) -> None:
    """The one difference that is known: Kafka's handler fails, and nobody answers. Tests should not have to wait."""
    request = produce_request(fake.topic(), b"")
    request.topic_data[0].partition_data[0].records = None
    assert produced(fake.ask(request)).error_code == ErrorCode.INVALID_RECORD
    impatient = JudgedBroker(real.address, 1.0)
    unanswered = produce_request(real.topic(), b"")
    unanswered.topic_data[0].partition_data[0].records = None
    with pytest.raises(KafkaError):
        impatient.ask(unanswered)
