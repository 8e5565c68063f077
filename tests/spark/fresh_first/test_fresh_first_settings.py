"""The options of fresh-first reading, and queries with state, which it would lose rows of."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.spark.errors import OptionError
from kwire.spark.fresh_first.advance import BatchLimits
from kwire.spark.fresh_first.settings import FreshFirst, State, fresh_first_options, refuse_state
from kwire.spark.option_values import GivenOptions

LIMITS = BatchLimits(1, 1)


def options(**given: str) -> FreshFirst | None:
    return fresh_first_options(GivenOptions({f"kwire.{name}": value for name, value in given.items()}))


@pytest.mark.parametrize("given", [{}, {"freshFirst": "false"}])
def test_it_is_off_unless_wanted(given: dict[str, str]) -> None:
    assert options(**given) is None


def test_the_limits_are_the_users() -> None:
    given = {"freshFirst": "stateless", "freshOffsetsPerTrigger": "500", "backfillOffsetsPerTrigger": "9"}
    assert options(**given) == FreshFirst(BatchLimits(fresh=500, backfill=9), State.KNOWN_ABSENT)


def test_true_looks_into_the_checkpoint() -> None:
    found = options(freshFirst="TRUE", checkpointLocation="/state")
    assert found is not None
    assert found.state is State.REFUSED


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"freshFirst": "yes"}, "'yes' is none of false, true, stateless"),
        ({"freshFirst": "true"}, "set kwire.checkpointLocation to it"),
        ({"freshOffsetsPerTrigger": "5"}, "'kwire.freshOffsetsPerTrigger' is for kwire.freshFirst"),
        ({"freshFirst": "stateless", "backfillOffsetsPerTrigger": "0"}, "must be positive, not 0"),
        ({"freshFirst": "stateless", "backfillOffsetsPerTrigger": "many"}, 'For input string: "many"'),
    ],
)
def test_what_makes_no_sense_names_the_option(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        options(**given)


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"])
def test_other_bounds_of_a_batch_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"'{name}' does not go with kwire.freshFirst"):
        fresh_first_options(GivenOptions({"kwire.freshFirst": "stateless", name.upper(): "5"}))


def with_state(checkpoint: Path, name: str = "metadata") -> Path:
    """A checkpoint as Spark leaves it before the first batch of a query with state."""
    metadata = checkpoint / "state" / "0" / "_metadata" / name
    metadata.parent.mkdir(parents=True)
    metadata.write_text("v1\n{}")
    return checkpoint


@pytest.mark.parametrize("state", [State.REFUSED, State.KNOWN_ABSENT])
@pytest.mark.parametrize("name", ["metadata", "v2/0"])
def test_a_query_that_keeps_state_is_refused(tmp_path: Path, state: State, name: str) -> None:
    """The second is of `transformWithState`, which went by."""
    with pytest.raises(OptionError, match="this query keeps state"):
        refuse_state(FreshFirst(LIMITS, state), with_state(tmp_path, name).as_uri())


def test_it_is_not_where_the_user_allows_it(tmp_path: Path) -> None:
    refuse_state(FreshFirst(LIMITS, State.ALLOWED), str(with_state(tmp_path)))


def test_nor_where_there_is_no_state(tmp_path: Path) -> None:
    refuse_state(FreshFirst(LIMITS, State.REFUSED), str(tmp_path))
    (tmp_path / "state" / "0").mkdir(parents=True)
    refuse_state(FreshFirst(LIMITS, State.REFUSED), str(tmp_path))
    refuse_state(FreshFirst(LIMITS, State.KNOWN_ABSENT), None)
