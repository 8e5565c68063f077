"""The options of `kwire consume`."""

from __future__ import annotations

from typing import Annotated

import typer

from kwire.cli import ends, starts, templates
from kwire.cli.times import Times
from kwire.cli.value_formats import FORMATS
from kwire.processing.policies import OnDataLoss

_FORMATS = ", ".join(FORMATS)

TopicNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC", help="The topics to read; one that begins with ^ is a pattern.", show_default=False
    ),
]
MoreTopics = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="A topic to read; may be repeated.")
]
Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include", "--whitelist", metavar="REGEX", help="Read the topics whose whole name matches; may be repeated."
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group", "-g", metavar="GROUP", help="Read as a member of this group, and commit. Default: no group."
    ),
]
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, metavar="N", help="Read only this partition; may be repeated."),
]
From = Annotated[
    str | None, typer.Option("--from", "-o", "--offset", metavar="START", help=f"{starts.HELP} Default: earliest.")
]
FromBeginning = Annotated[bool, typer.Option("--from-beginning", help="The same as --from earliest.")]
Until = Annotated[str | None, typer.Option("--until", "-u", metavar="END", help=ends.HELP)]
Count = Annotated[
    int | None,
    typer.Option("--count", "-n", "-c", "--max-messages", min=1, metavar="N", help="Stop after this many records."),
]
ExitAtEnd = Annotated[bool, typer.Option("--exit-at-end", "-e", help="Stop where each partition ends now.")]
TimeoutMs = Annotated[
    int | None,
    typer.Option(
        "--timeout-ms",
        metavar="MS",
        min=1,
        help="Stop when no record comes, or no broker answers, for MS milliseconds.",
    ),
]
Isolation = Annotated[
    str | None,
    typer.Option(
        "--isolation-level",
        metavar="LEVEL",
        help="read_uncommitted (default), or read_committed: no records of transactions that are open or aborted.",
    ),
]
DataLoss = Annotated[
    OnDataLoss,
    typer.Option(
        "--on-data-loss",
        help="At a damaged batch, or a position that the log has lost: stop, or skip it and say which offsets.",
    ),
]
FormatName = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help="text: values as lines; json: records as lines of JSON; raw: bare bytes; or a template such as "
        rf"'%t %p %o %k %s\n': {templates.HELP}.",
    ),
]
Print = Annotated[
    str | None,
    typer.Option(
        "--print",
        metavar="FIELDS",
        help="With text: which fields, in which order: topic, partition, offset, timestamp, headers, key, value.",
    ),
]
KeyFormat = Annotated[
    str | None,
    typer.Option(
        "--key-format",
        metavar="FORMAT",
        help=f"How keys are written: {_FORMATS}. int and float: as Java's serializers write them. Default: text.",
    ),
]
ValueFormatName = Annotated[
    str | None,
    typer.Option(
        "--value-format",
        metavar="FORMAT",
        help=f"How values are written: {_FORMATS}. json: within --format json as JSON, not as a string, if they are "
        "JSON; else on one line. Default: text.",
    ),
]
SchemaRegistry = Annotated[
    str | None,
    typer.Option(
        "--schema-registry",
        "-r",
        metavar="URL",
        help="The schema registry of avro and json-schema; its user belongs "
        "into KWIRE_SCHEMA_REGISTRY_USER_INFO (NAME:PASSWORD), or a file.",
    ),
]
Protobuf = Annotated[
    str | None,
    typer.Option("--protobuf", metavar="MODULE:CLASS", help="The message of protobuf: a class that protoc has made."),
]
KeySeparator = Annotated[
    str | None,
    typer.Option(
        "--key-separator",
        "-K",
        metavar="TEXT",
        help="With text: print the key and this before the value, or this between the fields of --print.",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter", "-D", metavar="TEXT", help="Print this after each record. Default: a new line; with raw nothing."
    ),
]
Null = Annotated[
    str | None,
    typer.Option(
        "--null", metavar="TEXT", help="With text and templates: the text that stands for a null. Default: null."
    ),
]
TimesName = Annotated[
    Times, typer.Option("--times", help="Times as milliseconds since 1970, or as dates in UTC or the local time zone.")
]
Escape = Annotated[
    bool | None,
    typer.Option(
        "--escape/--no-escape",
        help=r"Write control characters as \xNN, in text, templates and JSON. Default: on a terminal, not into a pipe.",
        show_default=False,
    ),
]
Metrics = Annotated[bool, typer.Option("--metrics", help="At the end, print the consumer's metrics to stderr.")]
