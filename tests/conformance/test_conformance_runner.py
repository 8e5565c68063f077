"""Running the suite: what a check does not reckon with is a failure of that check, and the others run."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest

from kwire.conformance.expectations import NonconformanceError
from kwire.conformance.report import CaseStatus
from kwire.conformance.runner import RunOptions, connect, run, run_case, select
from kwire.protocol.messages.create_topics import CreateTopicsRequest
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse
from kwire.testing import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def _without_records(answer: FetchResponse) -> None:
    for topic in answer.responses:
        for partition in topic.partitions:
            partition.records = b""


def test_a_broker_that_returns_no_records_fails_and_is_judged_to_the_end(cluster: Cluster) -> None:
    """The run ended with an IndexError, and without a report."""
    cluster.control.on(FetchRequest).edit(_without_records)  # type: ignore[arg-type]  # the answers to that request
    report = run(cluster.bootstrap_servers, RunOptions(only=("*logs diverge", "*refuses a wrong epoch")))
    reasons = {result.check: result.reason for result in report.results}
    assert reasons["shows where the logs diverge"] == "no records came from the start of a topic that has some"
    assert reasons["refuses a wrong epoch"] == ""


def _of_another_topic(answer: FetchResponse | ListOffsetsResponse) -> None:
    for topic in answer.responses if isinstance(answer, FetchResponse) else answer.topics:
        if isinstance(topic, ListOffsetsTopicResponse):
            topic.name = "another"
        else:
            topic.topic, topic.topic_id = "another", UUID(int=7)


def _of_another_partition(answer: FetchResponse | ListOffsetsResponse) -> None:
    for topic in answer.responses if isinstance(answer, FetchResponse) else answer.topics:
        for partition in topic.partitions:
            partition.partition_index += 1


@pytest.mark.parametrize("change", [_of_another_topic, _of_another_partition])
@pytest.mark.parametrize("request_class", [FetchRequest, ListOffsetsRequest])
def test_answers_about_what_was_not_asked_for_fail(
    cluster: Cluster,
    request_class: type[FetchRequest | ListOffsetsRequest],
    change: Callable[[FetchResponse | ListOffsetsResponse], None],
) -> None:
    """Checks look at the one partition of an answer: a broker that named others passed them all."""
    cluster.control.on(request_class).edit(change)  # type: ignore[arg-type]  # the answers to that request
    report = run(cluster.bootstrap_servers, RunOptions(only=(request_class.__name__.removesuffix("Request"),)))
    failed = [result for result in report.results if result.status is CaseStatus.FAILED]
    assert len(failed) > len(report.results) / 2
    assert any("were asked for" in result.reason for result in failed)


def test_a_check_that_stumbles_has_failed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = connect(cluster.bootstrap_servers)
    case = select(broker, ["*tells only what changed"])[0]

    def stumble(*_arguments: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(type(broker), "topic", stumble)
    result = run_case(broker, case)
    assert (result.status.value, result.reason) == ("failed", "IndexError: list index out of range")


def test_an_empty_topic_that_cannot_be_made_is_asked_for_once(cluster: Cluster) -> None:
    """75 cases share it: one after the other waited for an answer that did not come."""
    asked = cluster.control.on(CreateTopicsRequest).drop()
    broker = connect(cluster.bootstrap_servers, timeout_s=0.1)
    for _case in range(3):
        with pytest.raises(NonconformanceError, match=r"there is no empty topic to check with: .* did not answer in"):
            broker.empty_topic()
    assert asked.fired == 1


def test_a_run_that_is_interrupted_waits_for_no_answer(cluster: Cluster) -> None:
    """Ctrl-C waited for all cases under way, each of which waited for several timeouts."""
    timeout_s = 10.0
    cluster.control.on(FetchRequest).drop()
    main = threading.get_ident()
    cluster.control.on(FetchRequest, times=1).observe(lambda *_: signal.pthread_kill(main, signal.SIGINT))
    began_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(cluster.bootstrap_servers, RunOptions(timeout_s=timeout_s, only=("Fetch",)))
    assert time.monotonic() - began_s < timeout_s
