"""Several Avro schemas as one that has what any of them has."""

from __future__ import annotations

import io

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.deserializers.avro_merge import merged


def record(*fields: dict[str, object]) -> dict[str, object]:
    return {"type": "record", "name": "R", "fields": list(fields)}


def field(name: str, kind: object = "int", **more: object) -> dict[str, object]:
    return {"name": name, "type": kind, **more}


def nullable(name: str, kind: object = "int") -> dict[str, object]:
    return field(name, ["null", kind], default=None)


LONG_MS, LONG_US = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
A, B, C = field("a"), field("b"), field("c")


def array(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


def enum(*symbols: str) -> dict[str, object]:
    return {"type": "enum", "name": "E", "symbols": list(symbols)}


@pytest.mark.parametrize(
    ("newest", "older", "both"),
    [
        (record(A), record(A), record(A)),
        (record(A), record(A, B), record(A, nullable("b"))),
        (record(A, B), record(A), record(A, nullable("b"))),
        (record(A, field("b", default=7)), record(A), record(A, field("b", default=7))),
        (record(A, B), record(A, C), record(A, nullable("b"), nullable("c"))),
        (record(field("b", aliases=["a"])), record(A), record(field("b", aliases=["a"]))),
        (
            record(field("x", record(A))),
            record(field("x", record(B))),
            record(field("x", record(nullable("a"), nullable("b")))),
        ),
        (array(record(A)), array(record(A, B)), array(record(A, nullable("b")))),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, {"type": "map", "values": "long"}),
        (enum("X", "Y"), enum("Z", "X"), enum("X", "Y", "Z")),
        ("int", "double", "double"),
        ("int", "float", "double"),
        ("float", "int", "double"),
        ("long", "int", "long"),
        ("long", "double", "long"),
        ({"type": "int", "connect.type": "int16"}, "long", "long"),
        (LONG_MS, LONG_US, LONG_US),
        (LONG_US, LONG_MS, LONG_US),
        (record(A), record(A, field("u", ["int", "string"])), record(A)),
        ("string", "int", "string"),
        (["null", "int"], "long", ["null", "long"]),
        ("int", "null", ["null", "int"]),
        ("null", "null", "null"),
        ("null", {"type": "null"}, ["null"]),
        (["int", "string"], "int", ["int", "string"]),
    ],
)
def test_nothing_of_either_is_lost(newest: object, older: object, both: object) -> None:
    assert merged(newest, older) == both


KINDS: st.SearchStrategy[object] = st.recursive(
    st.sampled_from(["int", "long", "string", "boolean"]),
    lambda inner: st.one_of(
        st.builds(lambda kind: {"type": "array", "items": kind}, inner),
        st.builds(lambda kind: {"type": "map", "values": kind}, inner),
    ),
    max_leaves=3,
)
FIELDS = st.dictionaries(st.sampled_from("abcd"), KINDS, min_size=1)


def value_of(kind: object) -> object:
    match kind:
        case {"type": "array", "items": items}:
            return [value_of(items)]
        case {"type": "map", "values": values}:
            return {"k": value_of(values)}
        case "string":
            return "text"
        case "boolean":
            return True
        case _:
            return 5


@given(FIELDS, st.sets(st.sampled_from("abcd")), st.sets(st.sampled_from("abcd")))
def test_records_of_each_keep_all_their_fields(kinds: dict[str, object], mine: set[str], theirs: set[str]) -> None:
    """Two versions with some of the same fields: whatever one of them has is there, what it lacks is null."""
    versions = [record(*(field(name, kind) for name, kind in kinds.items() if name in some)) for some in (mine, theirs)]
    reader = fastavro.parse_schema(merged(*versions))  # type: ignore[arg-type]
    for schema, some in zip(versions, (mine, theirs), strict=True):
        sent = {name: value_of(kind) for name, kind in kinds.items() if name in some}
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, sent)
        stream.seek(0)
        found = fastavro.schemaless_reader(stream, schema, reader)
        assert found == {name: sent.get(name) for name in kinds if name in mine | theirs}


def test_a_field_keeps_its_former_names_among_three_versions() -> None:
    """Renamed in the third, and unknown to the first: what the second wrote under the old name was null."""
    renamed = record(A, field("c", aliases=["b"]))
    reader = fastavro.parse_schema(merged(merged(renamed, record(A, B)), record(A)))  # type: ignore[arg-type]
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, record(A, B), {"a": 1, "b": 7})
    stream.seek(0)
    assert fastavro.schemaless_reader(stream, record(A, B), reader) == {"a": 1, "c": 7}
