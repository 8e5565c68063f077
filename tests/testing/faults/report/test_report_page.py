"""The page: everything inside, nothing from outside, and each violation with what led to it."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from kwire.testing.faults.report import ExpectedRecovery, page
from kwire.testing.faults.report.figures import counted, duration, moment
from kwire.testing.faults.report.stories import MAX_STORIES, stories
from kwire.testing.invariants import Violation
from kwire.testing.invariants.ledger import Ended, Frozen, Sought

if TYPE_CHECKING:
    from tests.testing.faults.report.report_run import (
        T0,
        T1,
        assigned,
        began,
        committed,
        healed,
        killed,
        ledger,
        polled,
        run,
        sent,
        started,
    )
else:
    from report_run import T0, T1, assigned, began, committed, healed, killed, ledger, polled, run, sent, started

END = Ended(at_ms=100_000)
BEGIN = [started(), assigned(10, "a", T0, T1), *sent(100, 0), polled(150, 0)]
VIOLATION = Violation(rule="poll-skip", at_ms=5_000, what="a polled orders-0 at 4, and skipped [3]")


class Reader(HTMLParser):
    """Checks that elements are closed as they were opened, and keeps text and attributes."""

    VOID = frozenset(("meta", "path", "rect"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.words: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_a_page_holds_all_of_it_and_asks_for_nothing_from_outside() -> None:
    fault = [began(1_000, "latency", "all brokers"), *sent(1_100, 1), healed(9_000, "latency"), polled(9_400, 1)]
    one = replace(
        run(BEGIN, fault, END),
        expected={"latency": ExpectedRecovery(bound_ms=2_000.0, formula="2 x a_setting", about="Answers come late.")},
        title="the network is slow",
        schedule="at 1s latency all 100ms for 8s",
        replay="kwire faults --seed 7",
        versions={"kafka": "4.3.1"},
    )
    reader = Reader(page(one))
    words = "\n".join(reader.words)
    assert reader.open == []
    assert reader.links == []
    assert not reader.names & {"script", "link", "img", "iframe", "object"}
    assert "kwire passed: 2 records sent, none lost, none twice; 1 fault in 1:40 min, slowest recovery 400 ms." in words
    shown = (
        "Fault injection: the network is slow",
        "all brokers",
        "in time",
        "the heal",
        "2 x a_setting",
        "Answers come late.",
    )
    for told in (*shown, one.schedule, one.replay, "4.3.1"):
        assert told in words


def test_everything_is_escaped() -> None:
    evil = "</pre><script>alert(1)</script>&"
    violation = Violation(rule="r", at_ms=5, what=evil)
    events = [started(0, evil), assigned(1, evil), *sent(2, 0), began(3, evil, evil), polled(4, 0, member=evil)]
    one = replace(
        run(events, END),
        name=evil,
        title=evil,
        violations=(violation,),
        schedule=evil,
        replay=evil,
        versions={evil: evil},
    )
    text = page(one, [replace(one, name=evil + "2")])
    reader = Reader(text)
    assert "<script" not in text
    assert reader.open == []
    assert sum(word.count("alert(1)") for word in reader.words) > 10


def test_the_same_run_makes_the_same_page() -> None:
    one = replace(run(BEGIN, END), violations=(VIOLATION,))
    assert page(one) == page(one)


def test_a_run_that_failed_says_so_at_the_top() -> None:
    words = Reader(page(replace(run(BEGIN, END), violations=(VIOLATION,)))).words
    told = [word for word in words if word.strip()]
    assert told.index("Fault injection") < told.index("kwire failed: 1 violation: poll-skip (1); 0 faults in 1:40 min.")
    assert str(VIOLATION) in told


def test_runs_that_are_compared_have_their_verdicts_columns_and_pictures() -> None:
    other = replace(run(BEGIN, sent(200, 1), END), name="another", violations=(VIOLATION,))
    text = page(run(BEGIN, END), [other])
    assert text.count("<svg") == 2
    assert text.rindex(str(VIOLATION)) > text.index("<h2>another</h2>")
    assert "<th>another</th>" in text
    assert "another failed: 1 violation: poll-skip (1); 1 partition stuck" in text


def test_the_picture_is_on_top_unless_runs_are_compared() -> None:
    one = run(BEGIN, END)
    alone, compared = page(one), page(one, [replace(one, name="another")])
    assert alone.index("<h2>What happened</h2>") < alone.index("<h2>Figures</h2>")
    assert compared.index("<h2>Figures</h2>") < compared.index("<h2>What happened</h2>")


def test_a_story_tells_of_the_partition_its_members_and_the_faults() -> None:
    events = [
        *BEGIN,
        began(200, "latency", "all"),
        *sent(250, 0, partition=T1),
        polled(260, 0, partition=T1),
        committed(300, 1),
        started(310, "stranger"),
        Frozen(at_ms=350, member="a"),
        Sought(at_ms=360, member="a", partition=T0, offset=1),
        polled(400, 1, 2),
        polled(410, 3),
        killed(6_000),
    ]
    (story,) = stories(ledger(events), [VIOLATION])
    assert story.lines == (
        "0:00.0  a starts",
        "0:00.0  a assigned orders-0, orders-1",
        "0:00.2  a polled orders-0 0-0",
        "0:00.2  FAULT latency: all",
        "0:00.3  a committed orders-0 up to 1",
        "0:00.4  a frozen",
        "0:00.4  a sought orders-0 to 1",
        "0:00.4  a polled orders-0 1-3",
    )


def test_a_story_about_a_member_alone_is_that_of_the_member() -> None:
    events = [*BEGIN, started(300, "b"), killed(400)]
    (story,) = stories(ledger(events), [Violation(rule="died", at_ms=900, what="a: the network side died")])
    assert story.lines == ("0:00.0  a starts", "0:00.4  a killed")


def test_only_the_last_lines_and_the_first_violations_are_told() -> None:
    events = [*BEGIN, *(committed(200 + each, each) for each in range(50))]
    told = stories(ledger(events), [VIOLATION] * 99, lines=3)
    assert len(told) == MAX_STORIES
    assert [line[-2:] for line in told[0].lines] == ["47", "48", "49"]
    assert "79 more, without their stories" in page(replace(run(events, END), violations=(VIOLATION,) * 99))


def test_figures_are_short_and_round_well() -> None:
    told = [duration(each) for each in (0, 999.4, 999.6, 12_340, 59_949, 59_960, 125_000)]
    assert told == ["0 ms", "999 ms", "1.0 s", "12.3 s", "59.9 s", "1:00 min", "2:05 min"]
    assert [moment(each) for each in (0, 59_960, 61_250)] == ["0:00.0", "1:00.0", "1:01.2"]
    assert [counted(each, "recovery", "recoveries") for each in (1, 1_200)] == ["1 recovery", "1,200 recoveries"]
