"""mypy and pyright in strict mode read programs of users: what is right passes unannotated, what is wrong does not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from mypy import api

README = Path(__file__).parents[2] / "README.md"
HEAD = """import json
from typing import Any, assert_type
from kwire import AsyncConsumer, Consumer, Record, Records, read
from kwire.config import Settings
from kwire.deserializers import *  # pyright: ignore[reportWildcardImportFromLibrary]

"""
Complaints = Mapping[str, list[str]]

FIRST_PROGRAM = (
    README.read_text(encoding="utf-8").split("## A first program")[1].split("```python\n")[1].split("```")[0]
)

RIGHT = {
    "the first program of the README": FIRST_PROGRAM,
    "bytes without deserializers": """
with Consumer("orders", bootstrap_servers="b:1", group_id="g") as consumer:
    for record in consumer:
        assert_type(record, Record[bytes, bytes])
        assert_type(record.value, bytes | None)
    assert_type(consumer.poll(1.0), Records[bytes, bytes])
""",
    "what deserializers make": """
class Number:
    def deserialize(self, topic: str, headers: object, data: bytes | None) -> int | None:
        return None if data is None else int(data)

consumer = Consumer("orders", bootstrap_servers="b:1", key_deserializer=bytes.decode, value_deserializer=Number())
assert_type(consumer, Consumer[str, int])
value_only = Consumer("orders", bootstrap_servers="b:1", value_deserializer=float)
assert_type(value_only, Consumer[bytes, float])
""",
    "a dictionary of text": """
def work(settings: dict[str, str], more: dict[str, object]) -> None:
    assert_type(Consumer(settings), Consumer[bytes, bytes])
    assert_type(Consumer(more, "orders", group_id="g"), Consumer[bytes, bytes])
    assert_type(Consumer(settings, value_deserializer=bytes.decode), Consumer[bytes, str])
    as_text: Consumer[str, str] = Consumer(settings | {"key.deserializer": "StringDeserializer"})
    as_text.poll(1.0)
""",
    "a dictionary as keywords": """
def work(text: dict[str, str], objects: dict[str, object], anything: dict[str, Any], typed: Settings) -> None:
    assert_type(Consumer(**text), Consumer[bytes, bytes])
    assert_type(Consumer("orders", **objects), Consumer[bytes, bytes])
    assert_type(Consumer(**typed, value_deserializer=float), Consumer[bytes, float])
    assert_type(AsyncConsumer("orders", **text), AsyncConsumer[bytes, bytes])
    Consumer("orders", **anything, group_id="billing").poll(1.0)
    assert_type(list(read("orders", **text)), list[Record[bytes, bytes]])
    assert_type(list(read("orders", value_deserializer=int, **typed)), list[Record[bytes, int]])
""",
    "deserializers of kwire": """
def with_ctx(data: bytes, ctx: SerializationContext) -> tuple[str, bytes]:
    return ctx.topic, data

def order_of(fields: dict[str, object], ctx: SerializationContext) -> frozenset[str]:
    return frozenset(fields)

avro = AvroDeserializer("http://registry:8081")
consumer = Consumer("orders", bootstrap_servers="b:1", key_deserializer=LongDeserializer(), value_deserializer=avro)
assert_type(consumer, Consumer[int, dict[str, object]])
texts = Consumer("t", bootstrap_servers="b:1", key_deserializer=StringDeserializer(), value_deserializer=with_ctx)
assert_type(texts, Consumer[str, tuple[str, bytes]])
documents = AsyncConsumer("t", bootstrap_servers="b:1", value_deserializer=JsonDeserializer())
assert_type(documents, AsyncConsumer[bytes, JsonValue])
orders = AvroDeserializer({"url": "http://registry:8081"}, from_dict=order_of)
assert_type(Consumer("t", bootstrap_servers="b:1", value_deserializer=orders), Consumer[bytes, frozenset[str]])
print(consumer.poll(1.0).to_polars(key=LongDeserializer(), value=avro).columns)
""",
    "an event loop": """
async def main() -> None:
    async with AsyncConsumer("orders", bootstrap_servers="b:1", value_deserializer=int) as consumer:
        async for record in consumer:
            assert_type(record, Record[bytes, int])
        assert_type(await consumer.poll(1.0), Records[bytes, int])
""",
    "names without parameters": """
def work(consumer: Consumer, records: Records, record: Record) -> None:
    assert_type(consumer.poll(1.0), Records[bytes, bytes])
    assert_type(record.key, bytes | None)
    print(records)
""",
}

# What mypy says, and what pyright says.
WRONG = {
    "a slip of the finger": (
        'Consumer(bootstrap_server="b:1")\n',
        'Unexpected keyword argument "bootstrap_server" for overloaded function "Consumer"; did you mean',
        'No overloads for "__init__" match the provided arguments',
    ),
    "milliseconds as text": (
        'Consumer("orders", bootstrap_servers="b:1", max_poll_records="5")\n',
        'No overload variant of "Consumer" matches argument types',
        'Argument of type "Literal[\'5\']" cannot be assigned to parameter "max_poll_records" of type "int"',
    ),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("programs")
    files = {}
    for number, (name, text) in enumerate((RIGHT | {name: text for name, (text, _, _) in WRONG.items()}).items()):
        files[name] = folder / f"program_{number}.py"
        files[name].write_text(text if text == FIRST_PROGRAM else HEAD + text, encoding="utf-8")
    return files


@pytest.fixture(scope="module")
def mypys(programs: dict[str, Path]) -> Complaints:
    """The errors of each program: one run over all of them, since each run reads the library again."""
    folder = next(iter(programs.values())).parent
    found, trouble, _ = api.run(
        ["--strict", "--no-pretty", "--config-file=", f"--cache-dir={folder / 'cache'}", *map(str, programs.values())]
    )
    assert not trouble
    lines = [line for line in found.splitlines() if ": error: " in line]
    return {
        name: [re.sub(r"^.*?: error: ", "", line) for line in lines if f"{path.name}:" in line]
        for name, path in programs.items()
    }


@pytest.fixture(scope="module")
def pyrights(programs: dict[str, Path]) -> Complaints:
    """The same; basedpyright is pyright with a node of its own."""
    folder = next(iter(programs.values())).parent
    settings = {"typeCheckingMode": "strict", "reportUnusedImport": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = json.loads(ended.stdout)["generalDiagnostics"]
    return {
        name: [each["message"] for each in found if each["severity"] == "error" and Path(each["file"]) == path]
        for name, path in programs.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_needs_no_annotation(mypys: Complaints, pyrights: Complaints, name: str) -> None:
    assert (mypys[name], pyrights[name]) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_is_one_error(mypys: Complaints, pyrights: Complaints, name: str) -> None:
    _, mypy_says, pyright_says = WRONG[name]
    (error,) = mypys[name]
    assert error.startswith(mypy_says)
    assert pyrights[name][-1].startswith(pyright_says)
    assert len(pyrights[name]) <= 2  # it may say beforehand that no variant fits
