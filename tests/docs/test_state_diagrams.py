"""The diagrams of the site have what the tables of states have."""

from __future__ import annotations

import re

import pytest

from kwire.states.classic_group import CLASSIC_GROUP
from kwire.states.consumer_group import CONSUMER_GROUP
from kwire.states.machine import E, F, S, Table
from kwire.states.partition import PARTITION
from kwire.states.telemetry import TELEMETRY
from tools.draw_states import diagram
from tools.site.state_diagrams import Arrow, arrows_of, drawn

TABLES = (CLASSIC_GROUP, CONSUMER_GROUP, PARTITION, TELEMETRY)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_each_state_is_a_box_and_each_pair_of_states_an_arc(table: Table[S, E, F]) -> None:
    svg = drawn(diagram(table))
    boxes = re.findall(r">(\w+)</text>", svg)
    states = {row.source.name for row in table.rows} | {row.target.name for row in table.rows}
    assert states <= set(boxes)
    arcs = {(row.source.name, row.target.name) for row in table.rows}
    assert svg.count("<title>") == len(arcs)
    for source, target in arcs:
        assert f"<title>{source} to {target}: " in svg


def test_where_it_begins_is_an_arrow_from_nowhere() -> None:
    text = "stateDiagram-v2\n    [*] --> A\n    A --> B: GO / RUN\n"
    assert arrows_of(text) == (Arrow(None, "A", ""), Arrow("A", "B", "GO / RUN"))


def test_a_state_that_is_not_reached_is_drawn_all_the_same() -> None:
    assert ">C</text>" in drawn("[*] --> A\nA --> B: GO\nC --> B: GO\n")
