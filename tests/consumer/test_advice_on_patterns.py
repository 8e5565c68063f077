"""The regular expression that advice names for a topic's name with characters of patterns."""

from __future__ import annotations

import re
import warnings

import pytest

from kwire import Consumer
from kwire.consumer.topic_patterns import first_pattern, regex_of
from kwire.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "meant", "others"),
    [
        ("orders*", ["orders", "orders-dead", "orders.eu"], ["order", "reorders"]),
        ("orders?", ["orders1"], ["orders", "orders12", "reorders1"]),
        ("*.orders", ["eu.orders", "a.b.orders"], ["orders", "eu-orders", "eu.orders2"]),
        ("prod.orders*", ["prod.orders", "prod.orders-1"], ["prodxorders", "a.prod.orders"]),
        ("*", ["orders", "a.b"], []),
        ("or*rs", ["orders", "orrs"], ["orders2", "orde"]),
        ("a?.b_*", ["a1.b_", "a1.b_c"], ["a.b_", "a1xb_"]),
        ("^ord", ["ord", "orders"], ["reorders"]),
        ("^ord.*s$", ["orders"], ["order", "reorders"]),
        ("^(orders|refunds)$", ["orders", "refunds"], ["orders2"]),
    ],
)
def test_what_is_named_finds_the_topics_that_are_meant_and_no_others(
    text: str, meant: list[str], others: list[str]
) -> None:
    """The text itself was given back as a regular expression: `orders*` finds "order" and "reorders"."""
    regex = regex_of(text)
    assert regex is not None
    assert [name for name in [*meant, *others] if re.search(regex, name)] == meant


@pytest.mark.parametrize(
    "text", ["orders.*", "prod.?", "orders-[0-9]", "orders-[!a]*", "a|b", "ord+", "orders$", "{a,b}"]
)
def test_nothing_is_named_for_what_may_mean_more_than_one_thing(text: str) -> None:
    assert first_pattern([text]) == text
    assert regex_of(text) is None


@pytest.mark.parametrize(
    "text", ["^orders[", "^[z-a]", "orders[", "^(a", "^a{99999999999999999999}", "^" + "(" * 20_000]
)
def test_nothing_is_named_for_what_is_no_regular_expression(text: str) -> None:
    """Some ended in an OverflowError, or a RecursionError."""
    assert regex_of(text) is None


@pytest.mark.parametrize("text", ["^[[a]", "^[a--b]", "^[a&&b]", "^[a||b]", "^[a~~b]", "orders-[[a]*", "[a--b]"])
def test_nothing_is_named_for_what_python_warns_of(text: str) -> None:
    with warnings.catch_warnings(action="error"):
        assert regex_of(text) is None


def test_the_error_of_a_subscription_names_the_expression() -> None:
    with Consumer(bootstrap_servers="localhost:1", group_id="billing") as consumer:
        with pytest.raises(InvalidArgumentError, match=re.escape("finds: subscribe(re.compile('^orders.*'))")):
            consumer.subscribe(["bills", "orders*"])
        with pytest.raises(InvalidArgumentError, match=re.escape("finds: subscribe(re.compile(...))")):
            consumer.subscribe("orders|refunds")


def test_the_first_pattern_among_names_is_found() -> None:
    assert first_pattern(["a", 3, "b*", "^c"]) == "b*"
    assert first_pattern(["a.b-c_d"]) is None
