"""The table of error codes against Kafka's own, and the exceptions that codes become."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kwire.errors import (
    BrokerError,
    GroupAuthorizationError,
    IllegalSaslStateError,
    InternalError,
    InvalidGroupIdError,
    InvalidTopicError,
    KafkaError,
    RetriableBrokerError,
    SaslAuthenticationError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)
from kwire.protocol.error_codes import ErrorCode, error_for

TABLE = [line.split("\t") for line in (Path(__file__).parent / "golden/error_codes.tsv").read_text().splitlines()]


def test_numbers_names_and_retriability_are_kafkas() -> None:
    expected = [(int(code), name, retriable == "true") for code, name, retriable in TABLE]
    assert [row.value for row in ErrorCode if row.is_unknown] == [-1]
    assert [(row.value, row.name, row.retriable) for row in ErrorCode] == expected


def test_each_code_has_a_meaning_of_its_own() -> None:
    assert len({row.meaning for row in ErrorCode}) == len(ErrorCode)


def test_codes_compare_with_the_numbers_in_messages() -> None:
    assert ErrorCode.of(16) is ErrorCode.NOT_COORDINATOR
    error_code = int("16")  # as it comes out of a message
    assert error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("code", [134, 999, -2, 32767])
def test_an_unknown_code_behaves_like_unknown_server_error_and_keeps_its_number(code: int) -> None:
    row = ErrorCode.of(code)
    assert (row, row.name, row.retriable, row.is_unknown) == (code, "UNKNOWN_SERVER_ERROR", False, True)
    error = error_for(code)
    assert isinstance(error, BrokerError)
    assert (error.code, error.name) == (code, "UNKNOWN_SERVER_ERROR")
    assert f"error code {code}, which is newer" in str(error)
    assert code not in [known.value for known in ErrorCode]


@pytest.mark.parametrize("row", [row for row in ErrorCode if row], ids=lambda row: row.name)
def test_every_code_becomes_an_exception_that_pickles_and_says_which_it_is(row: ErrorCode) -> None:
    error = error_for(row)
    assert isinstance(error, row.exception)
    assert str(error) == f"{row.name} ({row.value}): {row.meaning}"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_a_brokers_exception_is_retriable_exactly_if_the_code_is() -> None:
    for row in ErrorCode:
        assert row.exception.retriable == row.retriable


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (3, UnknownTopicOrPartitionError),
        (6, RetriableBrokerError),
        (22, BrokerError),
        (24, InvalidGroupIdError),
        (30, GroupAuthorizationError),
        (35, UnsupportedVersionError),
        (33, UnsupportedSaslMechanismError),
        (34, IllegalSaslStateError),
        (58, SaslAuthenticationError),
    ],
)
def test_codes_with_a_class_of_their_own_become_it(code: int, expected: type[KafkaError]) -> None:
    assert type(error_for(code, "joining group g")) is expected
    row = ErrorCode.of(code)
    assert str(error_for(code, "joining group g")) == f"joining group g: {row.name} ({code}): {row.meaning}"


def test_exceptions_about_topics_carry_them() -> None:
    for code, expected in ((29, TopicAuthorizationError), (17, InvalidTopicError)):
        error = error_for(code, topics=["b", "a"])
        assert isinstance(error, TopicAuthorizationError | InvalidTopicError)
        assert type(error) is expected
        assert error.topics == {"a", "b"}
        assert "a" in str(error)
        assert str(error_for(code, "words", topics=["a"])).startswith("words: ")


def test_success_is_no_exception() -> None:
    with pytest.raises(InternalError):
        error_for(0)
