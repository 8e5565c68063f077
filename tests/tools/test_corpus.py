"""`scripts/corpus` passes what Kafka wrote, and notices every kind of difference."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.corpus import cli as corpus_cli
from tools.fuzz.targets import MESSAGES, RECORD_SETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.corpus.lines import Line


def lines_of(path: Path) -> list[Line]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


@pytest.fixture(scope="module")
def messages() -> list[Line]:
    return [line for line in lines_of(MESSAGES) if line["message"] == "MetadataResponse" and line["version"] == 12]


@pytest.fixture(scope="module")
def record_sets() -> dict[str, Line]:
    return {str(line["case"]): line for line in lines_of(RECORD_SETS)}


def write(tmp_path: Path, *lines: Line) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_messages_pass_and_are_counted_by_version(
    tmp_path: Path, messages: list[Line], capsys: pytest.CaptureFixture[str]
) -> None:
    full = {**messages[0], "api_key": 3, "kind": "response", "header_version": 1}
    assert corpus_cli.main([str(write(tmp_path, full, *messages[1:]))]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["API", "version", "request", "response", "data"]
    assert rows[1] == ["Metadata", "12", "-", str(len(messages)), "of", str(len(messages)), "-"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"message": "MetadataAnswer"}, "no message is called"),
        ({"version": 99}, "versions 0 to 13"),
        ({"api_key": 4}, "api_key is 4, but kwire says 3"),
        ({"kind": "request"}, "kind is 'request'"),
        ({"header_version": 0}, "header_version is 0"),
        ({"hex": "00"}, "encoding the fields gives"),
        ({"fields": {}}, "encoding the fields gives"),
        ({"fields": {"nodes": 1}}, "has no field 'nodes'"),
    ],
)
def test_any_difference_in_a_message_is_reported(
    tmp_path: Path, messages: list[Line], capsys: pytest.CaptureFixture[str], change: Line, problem: str
) -> None:
    full = next(line for line in messages if len(str(line["hex"])) > 100)
    assert corpus_cli.main(["--quiet", str(write(tmp_path, {**full, **change}, full))]) == 1
    shown = capsys.readouterr().out
    assert problem in shown
    assert "1 of 2 lines pass" in shown


def test_a_field_that_the_line_lacks_is_a_difference(
    tmp_path: Path, messages: list[Line], capsys: pytest.CaptureFixture[str]
) -> None:
    fields = messages[0]["fields"]
    assert isinstance(fields, dict)
    lacking = {name: value for name, value in fields.items() if name != "controller_id"}
    defaults = {**fields, "controller_id": -1}
    data = next(line["hex"] for line in messages if line["fields"] == defaults)
    assert corpus_cli.main([str(write(tmp_path, {**messages[0], "fields": lacking, "hex": data}))]) == 1
    assert "decoding gives other fields: controller_id" in capsys.readouterr().out


def test_record_sets_pass_gzipped_too(tmp_path: Path, record_sets: dict[str, Line]) -> None:
    path = tmp_path / "records.gz"
    chosen = [line for line in record_sets.values() if len(str(line["hex"])) < 2000][::5]
    path.write_bytes(gzip.compress("".join(f"{json.dumps(line)}\n" for line in chosen).encode()))
    assert corpus_cli.main(["--quiet", str(path)]) == 0


def changed_record(line: Line, **changes: object) -> Line:
    records = line["expect"]
    assert isinstance(records, list)
    return {**line, "expect": [{**records[0], **changes}, *records[1:]]}


def changed_batch(line: Line, **changes: object) -> Line:
    batches = line["batches"]
    assert isinstance(batches, list)
    return {**line, "batches": [{**batches[0], **changes}, *batches[1:]]}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda line: changed_record(line, value="AAAA"), "the record at offset"),
        (lambda line: changed_record(line, sequence=77), "the record at offset"),
        (lambda line: changed_record(line, headers=[["a", None], ["b", ""]]), "the record at offset"),
        (lambda line: {**line, "expect": []}, "records from bytes, Kafka has 0"),
        (lambda line: changed_batch(line, crc=1), "another crc"),
        (lambda line: changed_batch(line, timestamp_type="LogAppendTime"), "another timestamp_type"),
        (lambda line: changed_batch(line, base_timestamp=5), "another base_timestamp"),
        (lambda line: {**line, "batches": []}, "1 batches, Kafka has 0"),
        (lambda line: {**line, "valid_bytes": 1}, "Kafka says 1"),
        (lambda line: {**line, "hex": f"{str(line['hex'])[:-2]}00"}, "kwire refuses what Kafka reads"),
        (
            lambda line: {**line, "error": {}, "expect_before_error": []},
            "kwire reads what Kafka refuses",
        ),
    ],
)
def test_any_difference_in_a_record_set_is_reported(
    tmp_path: Path,
    record_sets: dict[str, Line],
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Line], Line],
    problem: str,
) -> None:
    line = next(
        line
        for case, line in record_sets.items()
        if case.startswith("v2/none") and len(line.get("expect", [])) and not str(line["hex"]).endswith("00")  # type: ignore[arg-type]  # a list
    )
    assert corpus_cli.main(["--quiet", str(write(tmp_path, change(line)))]) == 1
    assert problem in capsys.readouterr().out


def test_what_is_delivered_in_front_of_damage_is_compared(
    tmp_path: Path, record_sets: dict[str, Line], capsys: pytest.CaptureFixture[str]
) -> None:
    line = next(line for case, line in record_sets.items() if case.startswith("damaged/second-crc"))
    assert corpus_cli.main(["--quiet", str(write(tmp_path, line))]) == 0
    before = line["expect_before_error"]
    assert isinstance(before, list)
    assert corpus_cli.main(["--quiet", str(write(tmp_path, {**line, "expect_before_error": before[:-1]}))]) == 1
    reaching = [*before, {**before[-1], "batch": 7}]
    assert corpus_cli.main(["--quiet", str(write(tmp_path, {**line, "expect_before_error": reaching}))]) == 1
    assert "Kafka reaches batch 7" in capsys.readouterr().out


def test_a_marker_is_compared(tmp_path: Path, record_sets: dict[str, Line], capsys: pytest.CaptureFixture[str]) -> None:
    line = next(line for case, line in record_sets.items() if case.startswith("v2/control"))
    assert corpus_cli.main(["--quiet", str(write(tmp_path, changed_record(line, control_type="NOTHING")))]) == 1
    assert "the marker at offset" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "has no lines"),
        (b"[]\n", "line 1: not a JSON object"),
        (b"{\n", "line 1: "),
        (b"\x1f\x8b\x00\n", "line 1: "),
        (b'{"something": 1}\n', "neither a message nor a record set"),
        (b'{"message": "FetchRequest"}\n', "'version' should be a number"),
        (b'{"message": "FetchRequest", "version": 4, "hex": "0", "fields": {}}\n', "'hex'"),
        (b'{"message": "FetchRequest", "version": 4, "hex": "00", "fields": []}\n', "'fields' should be an object"),
        (b'{"case": "x", "hex": "", "valid_bytes": 0, "batches": 1, "expect": []}\n', "'batches' should be a list"),
    ],
)
def test_what_is_no_corpus_is_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, problem: str
) -> None:
    path = tmp_path / "corpus"
    path.write_bytes(content)
    assert corpus_cli.main([str(path)]) == 2
    assert problem in capsys.readouterr().err
    assert corpus_cli.main([str(tmp_path / "absent")]) == 2
