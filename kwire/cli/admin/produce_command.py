r"""`kwire produce`: write records by hand, for a quick test. Programs write with a producer.

echo 'an order' | kwire produce orders -b localhost:9092
kwire produce orders --key 7 --value '{"item": 1}' --header trace=1 --partition 0
kwire produce orders -K : < keys-and-values.txt
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kwire.cli.admin.typed_lines import lines_as_they_come, standard_input
from kwire.cli.escapes import unescape
from kwire.cli.options import ConfigFile, Properties, Servers, Verbose
from kwire.errors import ConfigError

if TYPE_CHECKING:
    from kwire.cli.admin.producing import Producing
    from kwire.conformance.batches import RecordToWrite
    from kwire.model import Header

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to write to.", show_default=False)]
Key = Annotated[str | None, typer.Option("--key", "-k", metavar="TEXT", help="The key of all records.")]
Value = Annotated[
    list[str] | None,
    typer.Option("--value", metavar="TEXT", help="A value; may be repeated. Default: each line of standard input."),
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header; may be repeated. NAME alone is a null."),
]
Partition = Annotated[
    int | None,
    typer.Option(
        "--partition",
        "-p",
        metavar="N",
        min=0,
        help="Write to this partition. Default: chosen by the key as in Java, in turn without a key.",
    ),
]
KeySeparator = Annotated[
    str | None,
    typer.Option("--key-separator", "-K", metavar="TEXT", help="Each line is a key, this text, and a value."),
]
Null = Annotated[
    str | None, typer.Option("--null", metavar="TEXT", help="A key or value with this text is a null (a tombstone).")
]


def produce_records(
    topic: Topic,
    bootstrap: Servers = None,
    key: Key = None,
    values: Value = None,
    headers: Headers = None,
    partition: Partition = None,
    key_separator: KeySeparator = None,
    null: Null = None,
    properties: Properties = None,
    config: ConfigFile = None,
    _verbose: Verbose = 0,
) -> None:
    """Write the lines of standard input to a topic, for a test.

    Each line is a record. Records are sent a thousand at a time, or when the input pauses. They are not compressed, and
    a batch that fails is not tried again. Prints their partitions and offsets to stderr.
    """
    from kwire.cli.admin.producing import Producing
    from kwire.cli.admin.session import cluster_view

    with cluster_view(bootstrap, properties, config) as view:
        if key is not None and key_separator is not None:
            raise ConfigError("--key is the key of all records, --key-separator finds one in each; give one of them")
        maker = RecordMaker(key, headers or (), key_separator, null)
        batches = (
            lines_as_they_come(standard_input())
            if values is None
            else [([value.encode("utf-8", "surrogateescape") for value in values], False)]
        )
        producing = Producing(view, topic, partition)
        try:
            _write_all(producing, maker, batches)
        except (ConfigError, KeyboardInterrupt):
            producing.flush()  # the records before an invalid line, or before an interruption
            if producing.count:
                print(f"kwire: {producing.summary()}", file=sys.stderr)
            raise
        print(f"kwire: {producing.summary()}", file=sys.stderr)


def _write_all(producing: Producing, maker: RecordMaker, batches: Iterable[tuple[list[bytes], bool]]) -> None:
    """Write records in large batches, and all of them before a pause of the input, whose length is not known."""
    for lines, has_more in batches:
        for line in lines:
            producing.add(maker.record(line))
        if not has_more:
            producing.flush()
    producing.flush()


class RecordMaker:
    """Makes records of lines, as the options say. Raises: ConfigError, if options contradict each other."""

    def __init__(self, key: str | None, headers: Sequence[str], key_separator: str | None, null: str | None) -> None:
        self._null = None if null is None else unescape("--null", null)
        self._key = None if key is None else self._or_null(key.encode("utf-8", "surrogateescape"))
        self._separator = None if key_separator is None else unescape("--key-separator", key_separator)
        self._headers = tuple(map(_header, headers))
        self._lines = 0
        if self._separator == b"":
            raise ConfigError("--key-separator: it is empty")

    def record(self, line: bytes) -> RecordToWrite:
        """Raises: ConfigError, if a line has no key and needs one."""
        from kwire.conformance.batches import RecordToWrite

        self._lines += 1
        key, value = self._key, line
        if self._separator is not None:
            found, separator, value = line.partition(self._separator)
            if not separator:
                raise ConfigError(
                    f"line {self._lines} has no key: there is no {_shown(self._separator)} in {_shown(line[:60])}; "
                    "neither it nor what follows was written"
                )
            key = self._or_null(found)
        return RecordToWrite(value=self._or_null(value), key=key, headers=self._headers)

    def _or_null(self, data: bytes) -> bytes | None:
        return None if data == self._null else data


def _shown(data: bytes) -> str:
    return repr(data.decode("utf-8", "backslashreplace"))


def _header(text: str) -> Header:
    from kwire.model import Header

    name, equals, value = text.partition("=")
    if not name:
        raise ConfigError(f"--header {text}: write NAME=VALUE, or NAME alone for a null")
    return Header(name, value.encode("utf-8", "surrogateescape") if equals else None)
