"""`scripts/bench throughput`: who reads something else than was written has failed; no missed target is hidden."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from benchmarks import adapters, event_loops
from benchmarks import cli as benchmarks_cli
from benchmarks.chart import Bar, Panel, draw
from benchmarks.throughput import measure as throughput
from benchmarks.throughput import reader
from benchmarks.throughput.measure import Result, measure_case
from benchmarks.throughput.reader import Reading, StalledError, touch
from benchmarks.throughput.report import misses, paired, panels, print_table
from benchmarks.throughput.topics import CASES, HEADERS, Content, sum_of_offsets, values
from benchmarks.throughput.turn import (
    CLIENTS,
    COLUMNS,
    JAVA,
    POLL,
    ROWS,
    Client,
    Spent,
    Turn,
    WrongAnswerError,
    java_turn,
    reader_turn,
    run_process,
)

CONTENT = Content(records=1_000, size_bytes=100_000, offsets=124_500)


def turn(rate: float, *, cpu_s: float = 2.0, peak_bytes: int = 50_000_000) -> Turn:
    return Turn(rate=rate, steady_rate=rate * 1.5, cpu_s=cpu_s, peak_bytes=peak_bytes)


def result(client: Client, *rates: float | None, case: str = "plain", failures: tuple[str, ...] = ()) -> Result:
    return Result(
        case=case,
        title=CASES[case].title,
        client=client.name,
        client_title=client.title,
        content=CONTENT,
        turns=tuple(None if rate is None else turn(rate) for rate in rates),
        failures=failures,
    )


# --- the topics ------------------------------------------------------------------------------------------------------


def test_topics_are_what_their_titles_say_and_the_same_each_time() -> None:
    for case in CASES.values():
        sizes = {len(value) for value in values(case, 60)}
        assert case.least_bytes <= min(sizes) <= max(sizes) <= case.most_bytes
        assert (len(sizes) > 1) == (case.least_bytes < case.most_bytes)
        assert list(values(case, 3)) == list(values(case, 3))
        assert len(set(values(case, 60))) > 55


def test_headers_are_as_many_as_a_topic_says() -> None:
    assert all(case.headers == len(HEADERS[: case.headers]) for case in CASES.values())


def test_a_scaled_topic_has_as_many_records_in_each_partition() -> None:
    assert CASES["plain"].scaled(1.0) == 5_000_000
    assert CASES["plain"].scaled(0.0000011) == 4
    assert CASES["huge"].scaled(0.0013) % 4 == 0
    assert CASES["many-partitions"].scaled(0.00011) == 100


def test_offsets_add_up_partition_by_partition() -> None:
    assert sum_of_offsets(12, 4) == 4 * (0 + 1 + 2)
    assert sum_of_offsets(12, 6) == 6 * (0 + 1)


# --- the readers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    key: bytes | None = None
    value: bytes | None = b"abc"
    offset: int = 0
    timestamp: int = 1


class Ticks:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def perf_counter(self) -> float:
        return self.now_s


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    found = Ticks()
    monkeypatch.setattr(reader, "time", found)
    return found


def test_every_field_of_every_record_is_counted() -> None:
    assert touch([Row(offset=5), Row(offset=6, key=b"k")]) == (2, 7, 11)
    assert touch([]) == (0, 0, 0)


def test_a_record_without_a_timestamp_spoils_the_answer() -> None:
    assert touch([Row(offset=5, timestamp=-1)]) == (1, 3, -1)


def test_the_steady_time_begins_with_the_first_records_and_leaves_them_out(ticks: Ticks) -> None:
    reading = Reading(30)
    reading.begin()
    for at_s, counted in ((101.0, (0, 0, 0)), (103.0, (10, 1, 2)), (104.0, (20, 3, 4)), (109.0, (0, 0, 0))):
        ticks.now_s = at_s
        reading.add(counted)
    said = reading.to_json()
    assert (said["seconds"], said["steady_seconds"], said["steady_records"]) == (4.0, 1.0, 20)
    assert (said["records"], said["size_bytes"], said["offsets"]) == (30, 4, 6)
    assert said["peak_bytes"] > 1_000_000
    assert not reading.more()


def test_a_reader_that_gets_nothing_more_gives_up(ticks: Ticks) -> None:
    reading = Reading(30)
    reading.begin()
    reading.add((10, 1, 2))
    ticks.now_s += 29.0
    assert reading.more()
    ticks.now_s += 2.0
    with pytest.raises(StalledError, match="after 10 of 30"):
        reading.more()


def test_there_is_a_reader_for_everybody_but_java() -> None:
    named = {client.name for client in (*CLIENTS, *event_loops.CLIENTS, *adapters.PROGRAMS)}
    assert named - {JAVA.name} == reader.CLIENTS.keys()


# --- a turn ----------------------------------------------------------------------------------------------------------


def spent(output: str) -> Spent:
    return Spent(output=output, cpu_s=3.0, peak_bytes=7)


def said(**other: float) -> Spent:
    facts = {"seconds": 2.0, "steady_seconds": 1.0, "steady_records": 900, "peak_bytes": 9}
    answer = {"records": CONTENT.records, "size_bytes": CONTENT.size_bytes, "offsets": CONTENT.offsets}
    return spent("a warning\n" + json.dumps({**facts, **answer, **other}) + "\n")


def test_a_reader_that_found_all_has_a_rate() -> None:
    assert reader_turn(said(), CONTENT) == Turn(rate=500.0, steady_rate=900.0, cpu_s=3.0, peak_bytes=9)
    assert reader_turn(said(steady_records=0, steady_seconds=0.0), CONTENT).steady_rate == 500.0


@pytest.mark.parametrize("wrong", [{"records": 999}, {"size_bytes": 99_999}, {"offsets": 124_499}])
def test_a_reader_that_found_something_else_has_failed(wrong: dict[str, float]) -> None:
    with pytest.raises(WrongAnswerError, match="instead of"):
        reader_turn(said(**wrong), CONTENT)


JAVA_LINE = "2026-01-01 10:00:00:000, 2026-01-01 10:00:02:000, 0.0954, 0.0477, 1000, 500.0000, 500, 1500, 0.1, 666.7\n"


def test_javas_line_is_read() -> None:
    found = java_turn(spent("[main] a warning\n" + JAVA_LINE), CONTENT)
    assert found == Turn(rate=500.0, steady_rate=666.7, cpu_s=3.0, peak_bytes=7)


@pytest.mark.parametrize(
    "line", [JAVA_LINE.replace("1000,", "999,"), JAVA_LINE.replace("0.0954", "0.0964"), "WARNING: Exiting", ""]
)
def test_java_too_has_to_have_read_everything(line: str) -> None:
    with pytest.raises(WrongAnswerError):
        java_turn(spent(line), CONTENT)


def test_a_process_is_charged_for_what_it_used() -> None:
    code = "import time\nwhile time.process_time() < 0.1: pass\nprint('done')"
    found = run_process([sys.executable, "-I", "-S", "-c", code], os.environ)
    assert found.output == "done\n"
    assert 0.1 <= found.cpu_s < 5.0
    assert found.peak_bytes > 1_000_000


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(WrongAnswerError, match="exit code 1: no such thing"):
        run_process([sys.executable, "-I", "-S", "-c", "raise SystemExit('no such thing')"], os.environ)


def test_a_process_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.throughput.turn.TURN_TIMEOUT_S", 0.01)
    with pytest.raises(WrongAnswerError, match="exit code -9"):
        run_process([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"], os.environ)


# --- all turns -------------------------------------------------------------------------------------------------------


class Nothing:
    """An admin client whose topics are gone at once."""

    def delete_topics(self, topics: list[str]) -> dict[str, Nothing]:
        return dict.fromkeys(topics, self)

    def result(self, timeout_s: float) -> None:
        pass


def test_clients_take_turns_and_a_wrong_answer_fails_its_round_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def take(
        client: Client, servers: str, topic: str, content: Content, extra: Mapping[str, object] | None = None
    ) -> Turn:
        order.append(client.name)
        if len(order) == 4:
            raise WrongAnswerError("one too few")
        return turn(float(len(order)))

    monkeypatch.setattr(throughput, "take", take)
    monkeypatch.setattr(throughput, "written", lambda *arguments: CONTENT)
    monkeypatch.setattr(throughput, "AdminClient", lambda settings: Nothing())
    own, java = measure_case(CASES["plain"], "localhost:1", rounds=2, scale=1.0, clients=(ROWS, JAVA))
    assert order == ["confluent-consume", "kwire-rows", "java", "kwire-rows", "java"]  # the first warms up
    assert (own.turns, own.failures) == ((turn(2.0), None), ("one too few",))
    assert (java.turns, java.failures) == ((turn(3.0), turn(5.0)), ())


# --- what comes of it ------------------------------------------------------------------------------------------------


def test_rates_are_compared_round_by_round() -> None:
    own, peer = result(COLUMNS, 100.0, 900.0, 400.0, None), result(JAVA, 50.0, 1000.0, 200.0, 1.0)
    assert paired(own, peer) == 2.0
    assert paired(own, result(JAVA, None, None, None, 1.0)) is None


def test_missed_targets_are_named() -> None:
    assert misses([result(COLUMNS, 100.0), result(JAVA, 100.0)]) == []
    assert misses([result(COLUMNS, 99.0), result(JAVA, 100.0)]) == [
        "plain: kwire, columns is 0.99 times Java, instead of 1.0"
    ]
    assert misses([result(ROWS, 99.0, case="huge"), result(POLL, 100.0, case="huge"), result(JAVA, 500.0)]) == [
        "huge: kwire, rows is 0.99 times confluent poll(), instead of 1.0"
    ]


def test_a_round_that_failed_is_a_miss_whoever_it_was() -> None:
    assert misses([result(POLL, None, failures=("why",))]) == ["plain, confluent-poll: why"]


def test_the_table_has_rates_ratios_and_costs() -> None:
    printed = io.StringIO()
    found = [result(COLUMNS, 3e6, 4e6, 5e6), result(ROWS, 2e4, 2e4, 2e4), result(JAVA, None, None, None)]
    print_table(found, Console(width=120, file=printed))
    rows = [line.replace("│", " ").split() for line in printed.getvalue().splitlines() if "│" in line]
    assert rows == [
        ["plain", "kwire,", "columns", "4.00", "3.00-5.00", "6.00", "400", "1.00", "0.01", "2,000.00", "50"],
        ["kwire,", "rows", "0.0200", "0.0200-0.0200", "0.0300", "2", "200.00", "1.00", "2,000.00", "50"],
        ["Java", "failed"],
    ]


def test_the_chart_has_a_bar_for_everybody_who_came_to_an_end() -> None:
    found = panels([result(COLUMNS, 3e6, 5e6), result(JAVA, 2e4), result(POLL, None), result(JAVA, 1e6, case="lz4")])
    assert [panel.title for panel in found] == ["100 B", "1,000 B, lz4"]
    assert found[0].bars == (
        Bar(label="kwire, columns", value=4e6, least=3e6, most=5e6, text="4.00 M/s", own=True),
        Bar(label="Java", value=2e4, least=2e4, most=2e4, text="20.0 k/s"),
    )


def test_bars_are_as_long_as_their_values_and_stay_inside() -> None:
    bars = (Bar(label="a & b", value=50.0, least=40.0, most=100.0, text="50"),)
    longer = (Bar(label="c", value=25.0, least=25.0, most=25.0, text="25"),)
    picture = ElementTree.fromstring(draw("all <of> it", [Panel(title="p", bars=bars + longer)] * 4))
    namespace = {"svg": "http://www.w3.org/2000/svg"}
    widths = [float(bar.attrib["width"]) for bar in picture.iterfind(".//svg:rect", namespace)]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.01)
    assert len(widths) == 8
    assert 2 * widths[0] < float(picture.attrib["width"]) / 3
    texts = [text.text for text in picture.iterfind(".//svg:text", namespace)]
    assert texts[:4] == ["all <of> it", "p", "a & b", "50"]
    assert ElementTree.fromstring(draw("none", [])) is not None


def test_the_command_writes_json_and_a_chart_and_fails_when_a_target_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []
    found = [result(COLUMNS, 120.0), result(JAVA, 240.0)]

    def run(**options: object) -> list[Result]:
        asked.append((options["chosen"], options["scale"], options["rounds"]))
        return found

    monkeypatch.setattr(throughput, "run", run)
    out = ["--json", str(tmp_path / "out.json"), "--chart", str(tmp_path / "out.svg")]
    assert benchmarks_cli.main(["throughput", "--case", "lz4", "--scale", "0.1", *out]) == 1
    assert asked == [([CASES["lz4"]], 0.1, 5)]
    assert "MISSED plain: kwire, columns is 0.50 times Java" in capsys.readouterr().out
    rows = json.loads((tmp_path / "out.json").read_text())["results"]
    assert [row["rates"] for row in rows] == [[120], [240]]
    assert ElementTree.parse(tmp_path / "out.svg").getroot() is not None
    found.pop()
    assert benchmarks_cli.main(["throughput"]) == 0


def test_clients_that_are_not_tuned_have_targets_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []

    def run(**options: object) -> list[Result]:
        asked.append((options["clients"], options["defaults"]))
        return [result(COLUMNS, 140.0), result(JAVA, 100.0)]

    monkeypatch.setattr(throughput, "run", run)
    clients = ["--client", "kwire-columns", "--client", "java"]
    assert benchmarks_cli.main(["throughput", *clients, "--defaults"]) == 1
    assert "MISSED plain: kwire, columns is 1.40 times Java, instead of 1.5" in capsys.readouterr().out
    assert benchmarks_cli.main(["throughput", *clients]) == 0
    assert asked == [([COLUMNS, JAVA], True), ([COLUMNS, JAVA], False)]


def test_a_topic_that_cannot_be_read_at_all_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(**options: object) -> list[Result]:
        raise WrongAnswerError("read nothing")

    monkeypatch.setattr(throughput, "run", run)
    assert benchmarks_cli.main(["throughput"]) == 1
    assert capsys.readouterr().err == "scripts/bench: read nothing\n"
