"""`scripts/prove dashboard`: what it asks Prometheus, and what it draws."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from kwire.testing.kafka import ClusterError
from proofs.dashboard.drawing import Box, Span, draw, shown
from proofs.dashboard.panels import Series, named, panels, program


def test_every_panel_is_asked_for_and_no_variable_is_left() -> None:
    found = panels()
    assert len(found) == len({panel.title for panel in found}) == 21
    assert all(panel.queries for panel in found)
    assert not [query for panel in found for query in panel.queries if "$" in query.expression]


def test_a_legend_is_filled_in_as_grafana_does() -> None:
    assert named("{{topic}}-{{partition}} ({{client_id}})", {"topic": "orders", "partition": "0"}) == "orders-0 ()"


def test_who_has_no_prometheus_is_told_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("KWIRE_PROMETHEUS", raising=False)
    with pytest.raises(ClusterError, match="apt-get"):
        program()


def test_a_line_is_broken_where_there_are_no_numbers() -> None:
    line = Series("<one>", ((0.0, 1.0), (1.0, 2.0), (2.0, math.nan), (3.0, 1.0), (4.0, 1.5)))
    picture = draw("a run", [Box("a panel", "ms", [line])], [Span("a fault", 1.0, 2.0)], 0.0, 10.0)
    tree = ElementTree.fromstring(picture)
    found = [each.tag.rpartition("}")[2] for each in tree.iter()]
    assert found.count("polyline") == 2
    assert "&lt;one&gt;" in picture


@pytest.mark.parametrize(
    ("value", "unit", "text"), [(0.5, "percentunit", "50%"), (2500.0, "Bps", "2.5k B/s"), (5.0, "ms", "5 ms")]
)
def test_numbers_have_the_panels_unit(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text
