"""The checks as a whole: each API in each version, and only where broker and cluster have what a check needs."""

from __future__ import annotations

from collections import Counter

from kwire.conformance.offer import BrokerOffer, Feature
from kwire.conformance.registry import Check, all_checks
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.produce import ProduceRequest
from kwire.protocol.registry import ApiRange, BrokerVersions, request_classes
from kwire.protocol.schema import Versions


def offer(**ranges: tuple[int, int]) -> BrokerOffer:
    keys = {"fetch": FetchRequest.api_key, "heartbeat": HeartbeatRequest.api_key, "produce": ProduceRequest.api_key}
    return BrokerOffer(
        BrokerVersions({keys[name]: ApiRange(*span) for name, span in ranges.items()}), {"group.version": 1}
    )


def a_check(
    *,
    versions: str = "0+",
    once: bool = False,
    needs: tuple[type[ProduceRequest], ...] = (),
    feature: Feature | None = None,
) -> Check:
    return Check(
        area="tests",
        name="a check",
        request=HeartbeatRequest,
        versions=Versions.parse(versions),
        once=once,
        needs=needs,
        feature=feature,
        run=lambda broker, version: None,
    )


def test_every_declared_api_is_checked_in_every_version() -> None:
    checked: dict[int, set[int]] = {}
    for check in all_checks():
        if not check.once:
            checked.setdefault(check.request.api_key, set()).update(check.declared_versions())
    missing = {
        request.__name__: sorted(set(request.versions) - checked.get(key, set()))
        for key, request in request_classes().items()
    }
    assert {name: versions for name, versions in missing.items() if versions} == {}


def test_no_two_checks_of_an_api_have_the_same_name() -> None:
    names = Counter((check.api, check.name) for check in all_checks())
    assert [name for name, count in names.items() if count > 1] == []


def test_each_check_is_for_versions_that_exist() -> None:
    assert [check.name for check in all_checks() if not check.declared_versions()] == []


def test_a_check_runs_in_each_version_that_both_have() -> None:
    cases = a_check(versions="1+").cases(offer(heartbeat=(0, 3)))
    assert [(case.version, case.reason) for case in cases] == [
        (1, ""),
        (2, ""),
        (3, ""),
        (4, "the broker offers versions 0 to 3"),
    ]


def test_a_check_that_runs_once_takes_the_highest() -> None:
    assert [case.version for case in a_check(once=True).cases(offer(heartbeat=(0, 2)))] == [2]


def test_what_is_not_offered_is_told_once_for_a_check_that_runs_once() -> None:
    cases = a_check(once=True).cases(offer(fetch=(4, 18)))
    assert [(case.version, case.reason) for case in cases] == [(4, "the broker does not offer it")]


def test_a_check_names_what_it_needs() -> None:
    cases = a_check(needs=(ProduceRequest,)).cases(offer(heartbeat=(0, 0), produce=(0, 2)))
    assert cases[0].reason == "a check needs Produce, which the broker does not offer"
    assert a_check(needs=(ProduceRequest,)).cases(offer(heartbeat=(0, 0), produce=(0, 3)))[0].reason == ""


def test_a_feature_that_is_off_is_not_held_against_the_broker() -> None:
    found = [
        a_check(feature=Feature("group.version", level)).cases(offer(heartbeat=(0, 4)))[0].reason for level in (1, 2)
    ]
    assert found == ["", "the cluster has switched it off: a check needs group.version=2"]
