"""mypy in strict mode reads small programs of users: what is right passes unannotated, what is wrong is one error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

README = Path(__file__).parents[2] / "README.md"
HEAD = "import json\nfrom typing import assert_type\nfrom kwire import Consumer, Record, Records\n\n"

TEN_LINES = README.read_text(encoding="utf-8").split("## Ten lines")[1].split("```python\n")[1].split("```")[0]

RIGHT = {
    "the first program of the README": TEN_LINES,
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
    "names without parameters": """
def work(consumer: Consumer, records: Records, record: Record) -> None:
    assert_type(consumer.poll(1.0), Records[bytes, bytes])
    assert_type(record.key, bytes | None)
    print(records)
""",
}

WRONG = {
    "a dictionary as keywords": (
        "def work(settings: dict[str, str]) -> None:\n    Consumer(**settings)\n",
        'No overload variant of "Consumer" matches argument type "dict[str, str]"',
    ),
    "a slip of the finger": (
        'Consumer(bootstrap_server="b:1")\n',
        'Unexpected keyword argument "bootstrap_server" for overloaded function "Consumer"; did you mean',
    ),
    "milliseconds as text": (
        'Consumer("orders", bootstrap_servers="b:1", max_poll_records="5")\n',
        'No overload variant of "Consumer" matches argument types',
    ),
}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The errors of each program: one run of mypy over all of them, since each run reads the library again."""
    folder = tmp_path_factory.mktemp("programs")
    programs = RIGHT | {name: text for name, (text, _) in WRONG.items()}
    files = {}
    for number, (name, text) in enumerate(programs.items()):
        files[name] = folder / f"program_{number}.py"
        files[name].write_text(HEAD + text, encoding="utf-8")
    found, trouble, _ = api.run(
        ["--strict", "--no-pretty", "--config-file=", f"--cache-dir={folder / 'cache'}", *map(str, files.values())]
    )
    assert not trouble
    lines = [line for line in found.splitlines() if ": error: " in line]
    return {
        name: [re.sub(r"^.*?: error: ", "", line) for line in lines if f"{path.name}:" in line]
        for name, path in files.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_needs_no_annotation(complaints: dict[str, list[str]], name: str) -> None:
    assert complaints[name] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_is_one_error(complaints: dict[str, list[str]], name: str) -> None:
    (error,) = complaints[name]
    assert error.startswith(WRONG[name][1])
