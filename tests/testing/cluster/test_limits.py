"""The list of differences is in keeping with what is offered."""

from __future__ import annotations

from kwire.protocol.registry import request_classes
from kwire.testing.cluster.handlers import handlers, offered
from kwire.testing.cluster.limits import LIMITS
from kwire.testing.cluster.releases import LATEST

NOT_OFFERED = {
    "share groups": ("Share",),
}


def test_what_kwire_can_say_is_offered_or_listed_as_a_limit() -> None:
    listed = {limit.area for limit in LIMITS if limit.difference.startswith("not offered")}
    words = [word for area, names in NOT_OFFERED.items() if area in listed for word in names]
    missing = [cls.__name__ for key, cls in request_classes().items() if key not in offered(LATEST)]
    assert missing
    assert [name for name in missing if not any(word in name for word in words)] == []


def test_every_handler_is_offered_by_the_latest_release() -> None:
    assert {request.api_key for request in handlers()} == set(offered(LATEST))


def test_every_difference_has_a_reason() -> None:
    assert all(limit.difference and limit.reason for limit in LIMITS)
    assert len(set(LIMITS)) == len(LIMITS)
