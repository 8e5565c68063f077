"""`scripts/prove peers-tests`: what it makes of a run of the peers' tests. The run itself is the proof."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from proofs.peers_tests.peers import PEERS, Peer
from proofs.peers_tests.prove import BEGIN, DOCUMENT, END, HEADING, breaches, outcome_of, result, with_row
from proofs.peers_tests.sources import NoTestsError, pinned, source_of, version_of

PEER = Peer(name="peer", tests=("tests/test_it.py",), left_out={"test_inside": "looks inside"}, version_in="about.py")
REPORT = ET.fromstring(
    """<testsuites><testsuite>
    <testcase name="test_reads"/>
    <testcase name="test_inside"><skipped message="left out: looks inside"/></testcase>
    <testcase name="test_old"><skipped message="for Kafka 0.8"/></testcase>
    <testcase name="test_wrong"><failure message="no&#10;more"/></testcase>
    <testcase name="test_no_topic"><error message="no topic"/></testcase>
    </testsuite></testsuites>"""
)
OUTCOME = outcome_of(PEER, "1.2", REPORT)


def test_a_report_is_counted_by_what_became_of_each_test() -> None:
    assert str(OUTCOME) == "peer 1.2: 1 passed, 1 left out, 1 not for this broker, 2 failed"
    assert list(breaches(OUTCOME, is_whole=True)) == ["peer: test_wrong: no", "peer: test_no_topic: no topic"]


def test_a_test_that_is_left_out_and_not_there_is_told_of_a_whole_run() -> None:
    gone = Peer(name="peer", tests=PEER.tests, left_out={**PEER.left_out, "test_gone": "why"}, version_in="about.py")
    outcome = outcome_of(gone, "1.2", REPORT)
    assert "peer: test_gone is left out, and there is no such test" in breaches(outcome, is_whole=True)
    assert not [line for line in breaches(outcome, is_whole=False) if "test_gone" in line]


def test_the_table_keeps_the_rows_of_other_peers() -> None:
    page = f"before\n{BEGIN}{HEADING}| other 3.0 | 9 | 0 | 0 | 0 |\n| peer 1.1 | 0 | 0 | 0 | 0 |\n{END}after\n"
    assert with_row(page, OUTCOME) == (
        f"before\n{BEGIN}{HEADING}| other 3.0 | 9 | 0 | 0 | 0 |\n| peer 1.2 | 1 | 1 | 1 | 2 |\n{END}after\n"
    )
    assert with_row(DOCUMENT.read_text(), OUTCOME)


@pytest.mark.parametrize(("peer", "has_checkout"), [(PEERS[0], True), (PEERS[1], False)])
def test_a_source_without_tests_says_how_one_with_them_is_named(peer: Peer, has_checkout: bool, tmp_path: Path) -> None:
    with pytest.raises(NoTestsError, match=rf"at {pinned(peer)}: --checkout {peer.name}=PATH"):
        source_of(peer, tmp_path if has_checkout else None)


def test_a_source_says_which_release_it_is(tmp_path: Path) -> None:
    (tmp_path / "about.py").write_text('"""About."""\n__version__ = "1.2"\n')
    assert version_of(PEER, tmp_path) == "1.2"
    (tmp_path / "about.py").write_text("")
    assert version_of(PEER, tmp_path) == "unknown"


def test_each_test_is_left_out_for_a_reason_and_of_a_peer_that_is_pinned() -> None:
    for peer in PEERS:
        assert pinned(peer)
        assert all(why for why in peer.left_out.values())


def test_evidence_has_each_test_that_failed_or_was_left_out_with_why() -> None:
    found = result([OUTCOME, OUTCOME], date="2026-11-26", kwire="f9c0837", kafka="4.4.0")
    assert [figure.value for figure in found.figures] == [
        "2 passed, 4 failed",
        *["1 passed, 1 left out, 1 not for this broker, 2 failed"] * 2,
    ]
    assert {(each.what, each.why) for each in found.not_met} >= {
        ("peer: test_wrong", "no"),
        ("peer: test_inside", "looks inside"),
        ("peer: test_old", "for Kafka 0.8"),
    }
