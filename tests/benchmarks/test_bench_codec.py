"""`scripts/bench codec`: what is measured is what the messages say, and a missed target is not hidden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import cli as benchmarks_cli
from benchmarks.codec import measure as codec
from benchmarks.codec.cases import cases
from benchmarks.codec.measure import Result, misses, table
from benchmarks.codec.worker import Worker, measure
from benchmarks.peers import PeerError
from kwire.protocol import decode_message
from kwire.protocol.messages.fetch import FetchResponse
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.metadata import MetadataResponse


def result(participant: str, median_ns: float, *, pure: bool = True, error: str = "") -> Result:
    return Result(
        case="Metadata, 10,000 partitions",
        direction="decode",
        participant=participant,
        pure=pure,
        rounds_ns=() if error else (median_ns * 0.9, median_ns, median_ns * 1.2),
        error=error,
    )


def test_the_messages_are_as_large_as_their_titles_say() -> None:
    metadata, fetch, join_group, *heartbeats = cases()
    assert isinstance(metadata.message, MetadataResponse)
    assert isinstance(fetch.message, FetchResponse)
    assert isinstance(join_group.message, JoinGroupResponse)
    assert sum(len(topic.partitions) for topic in metadata.message.topics) == 10_000
    assert sum(len(topic.partitions) for topic in fetch.message.responses) == 1_000
    assert len(join_group.message.members) == 1_000
    assert [case.name for case in heartbeats] == ["HeartbeatRequest", "HeartbeatResponse"]
    for case in cases():
        assert decode_message(type(case.message), case.version, case.data) == case.message


def test_a_worker_measures_both_ways_and_refuses_other_bytes(tmp_path: Path) -> None:
    case = cases()[-2]
    (tmp_path / case.name).write_bytes(case.data)
    worker = Worker("kwire", tmp_path)
    for direction in ("decode", "encode"):
        assert worker.run(case.name, case.version, direction, 0.001)["ns"]
    (tmp_path / case.name).write_bytes(case.data[:-1] + b"\x01\x63\x00")  # an unknown tagged field is kept
    assert Worker("kwire", tmp_path).run(case.name, case.version, "decode", 0.001)["ns"]
    (tmp_path / "HeartbeatResponse").write_bytes(b"\x00\x00\x00\x00\x00\x00\x80\x00")  # a padded varint is not kept
    with pytest.raises(ValueError, match="kwire does not encode HeartbeatResponse v4 to the bytes"):
        Worker("kwire", tmp_path).run("HeartbeatResponse", 4, "decode", 0.001)


def test_measuring_fills_the_time() -> None:
    calls: list[int] = []
    assert measure(lambda: calls.append(1), 0.001) > 0
    assert len(calls) > 100


def test_the_table_has_medians_spreads_and_ratios() -> None:
    rows = [line.split() for line in table([result("kwire", 2e6), result("other", 5e3), result("odd", 0, error="no")])]
    assert rows[1][-5:] == ["kwire", "2.00", "ms", "30%", "1.00"]
    assert rows[2] == ["other", "5.00", "us", "30%", "0.00"]
    assert rows[3] == ["odd", "no"]


def test_missed_targets_are_named() -> None:
    assert misses([result("kwire", 2e6), result("other", 3e6), result("native", 1e6, pure=False)]) == []
    assert misses([result("kwire", 2e6), result("other", 1e6)]) == [
        "Metadata, 10,000 partitions, decode: other is faster"
    ]
    assert "instead of 50.0 ms" in misses([result("kwire", 51e6)])[0]
    assert "no" in misses([result("kwire", 0, error="no")])[0]


def test_the_command_writes_json_and_fails_when_a_target_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [result("kwire", 2e6), result("other", 1e6), result("odd", 0, error="no")]
    monkeypatch.setattr(codec, "run", lambda **options: found)
    assert benchmarks_cli.main(["codec", "--json", str(tmp_path / "out.json")]) == 1
    assert "MISSED" in capsys.readouterr().out
    rows = json.loads((tmp_path / "out.json").read_text())["results"]
    assert [row.get("median_ns") for row in rows] == [2e6, 1e6, None]
    monkeypatch.setattr(codec, "run", lambda **options: found[:1])
    assert benchmarks_cli.main(["codec"]) == 0


def test_a_peer_that_cannot_be_installed_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(**options: object) -> list[Result]:
        raise PeerError("pip failed")

    monkeypatch.setattr(codec, "run", run)
    assert benchmarks_cli.main(["codec"]) == 1
    assert capsys.readouterr().err == "scripts/bench: pip failed\n"
