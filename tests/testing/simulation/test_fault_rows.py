"""The table of faults, row by row: what proves each here. Its numbers are in the names of the scenarios.

A row is a scenario of the simulation (`test_row_NN_...` in the files beside this one), a row for other means, or about
something that kwire does not have yet. `SCENARIOS` is held against the scenarios that there are; `ELSEWHERE`, what is
proven at a lower level besides, against the tests it names.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]

SCENARIOS = {
    1: "the process of a leader is killed",
    2: "brokers are restarted, one after the other",
    3: "a leader moves, with and without a hint",
    4: "metadata names an old leader epoch",
    5: "the coordinator moves and loads",
    6: "no coordinator for longer than anybody retries",
    11: "connections go nowhere, are refused; addresses change",
    13: "bytes come in slices",
    14: "connections live for a second",
    15: "an answer is cut at each of its bytes",
    16: "frames of impossible lengths, and of nobody's request",
    17: "a bit is flipped under the checksum",
    18: "counts and lengths that cannot be, under a good checksum",
    19: "a record is larger than a fetch",
    20: "a partition is answered or assigned twice, or left out",
    21: "negative and undefined offsets",
    22: "retention overtakes the position",
    23: "compaction takes what the position is at",
    24: "an unclean election takes what was read",
    25: "the follower to read from is unknown, lags, dies",
    26: "fetch sessions are refused",
    27: "transactions hang, abort, end twice",
    28: "a static member is restarted",
    29: "two members have one instance id",
    30: "a process is stopped for two sessions",
    31: "a stale member epoch",
    32: "a commit hears that the membership is over",
    33: "a handler takes longer than the poll interval",
    34: "a consumer is slow for ten minutes",
    36: "callbacks raise, and block",
    37: "a rebalance meets a fetch, a look-up, a commit under way",
    38: "a storm of members",
    39: "a topic is recreated",
    40: "a topic grows; a pattern finds another",
    42: "fetches are throttled",
    43: "error codes that nobody knows; brokers of an older release",
    44: "commits are lost, late, too large, overlapping",
    45: "the wall clock steps; the machine is suspended",
    46: "a process is killed wherever it is",
    47: "the machine has no more sockets",
    48: "closing, whatever is going on",
    50: "brokers stand still one by one and go on in another order",
}

# What of a row is proven at a lower level besides: file, name.
ELSEWHERE = {
    15: [
        ("protocol/test_records_encoded.py", "test_a_cut_record_set_gives_its_whole_batches"),
        ("protocol/test_compression.py", "test_every_cut_is_noticed"),
    ],
    16: [
        ("protocol/test_framing.py", "test_a_length_that_cannot_be_right_is_refused_at_once"),
        ("protocol/test_framing.py", "test_an_answer_out_of_order_is_refused"),
        ("protocol/test_framing.py", "test_an_answer_that_nobody_waits_for_is_refused"),
    ],
    17: [("protocol/test_records_encoded.py", "test_every_changed_byte_under_the_checksum_is_noticed")],
    18: [
        ("protocol/test_fuzz.py", "test_damaged_bytes_end_as_results_or_as_the_two_errors_in_bounded_time_and_memory"),
        ("protocol/test_compression.py", "test_a_bomb_allocates_no_more_than_the_limit"),
        ("protocol/test_records_encoded.py", "test_a_wrong_record_count_is_refused_without_allocating_for_it"),
        ("protocol/test_records_encoded.py", "test_a_payload_beyond_the_limit_is_refused"),
    ],
    44: [("managers/test_commits.py", "test_a_commit_that_is_repeated_does_not_undo_a_newer_one")],
    48: [("consumer/test_access.py", "test_a_second_thread_is_refused_at_once_and_both_are_named")],
}

NOT_HERE = {
    7: "a row for real brokers behind a proxy; the simulation has it as the fault partition-from-one-broker",
    8: "a row for real brokers behind a proxy; the simulation has it as the fault partition-of-one-member",
    9: "a row for real brokers behind a proxy; the simulation has it as the fault partition-of-one-member",
    10: "a row for real brokers behind a proxy; the simulation has it as the fault half-open",
    12: "a row for real brokers behind a proxy; the simulation has it as the fault slow-network",
    35: "a processor with handlers of its own is not there yet",
    41: "TLS and SASL are not there yet, and the cluster in memory has no permissions",
    49: "a row for crash orders, which have worlds of their own: `scripts/simulate --parallel-rebalance`",
}
PARTS_NOT_HERE = {
    23: "offsets parked by a processor, which is not there yet",
    33: "lanes of a processor, which is not there yet",
    43: "falling back from the consumer protocol to the classic one: kwire refuses instead, and says so",
}


def told_scenarios() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for path in sorted(Path(__file__).parent.glob("test_fault_rows_*.py")):
        for name in re.findall(r"^def (test_row_\d+\w+)", path.read_text(), re.MULTILINE):
            found.setdefault(int(name.split("_")[2]), []).append(name)
    return found


def test_every_row_is_accounted_for() -> None:
    assert sorted({*SCENARIOS, *NOT_HERE}) == list(range(1, 51))
    assert not SCENARIOS.keys() & NOT_HERE.keys()


def test_each_row_that_says_so_has_a_scenario_and_no_other() -> None:
    assert sorted(told_scenarios()) == sorted(SCENARIOS)


def test_what_is_not_there_is_part_of_a_row_that_is() -> None:
    assert PARTS_NOT_HERE.keys() <= SCENARIOS.keys()


@pytest.mark.parametrize(("file", "name"), [each for proofs in ELSEWHERE.values() for each in proofs])
def test_the_proofs_elsewhere_exist(file: str, name: str) -> None:
    assert f"def {name}" in (TESTS / file).read_text()
