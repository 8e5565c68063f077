"""`kwire wire`: Kafka's messages by hand: bytes to JSON, JSON to bytes, and what a message looks like.

    kwire wire decode MetadataRequest 12 02000000...
    kwire wire encode HeartbeatRequest 4 '{"group_id": "billing"}'
    kwire wire show FetchResponse 16

Exit codes are those of `exits`: 1 when bytes or values do not follow the protocol, 2 when the command was wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from kwire.cli.exits import clean_exits
from kwire.cli.output import Output
from kwire.cli.wire_input import read_bytes, read_object
from kwire.errors import ConfigError, InvalidArgumentError, UnsupportedVersionError

wire_commands = typer.Typer(no_args_is_help=True, help="Decode, encode and explain messages of Kafka's protocol.")

Message = Annotated[
    str, typer.Argument(metavar="MESSAGE", help="The name of the message, such as FetchRequest.", show_default=False)
]
Version = Annotated[int, typer.Argument(metavar="VERSION", help="The version of the message.", show_default=False)]
MaybeMessage = Annotated[
    str | None,
    typer.Argument(metavar="MESSAGE", help="The name of the message, such as FetchRequest.", show_default=False),
]
MaybeVersion = Annotated[
    int | None, typer.Argument(metavar="VERSION", help="The version of the message.", show_default=False)
]
Data = Annotated[str, typer.Argument(metavar="HEX|@FILE|-", help="The bytes; - is standard input.")]
Fields = Annotated[str, typer.Argument(metavar="JSON|@FILE|-", help="The fields; - is standard input.")]
Raw = Annotated[bool, typer.Option("--raw", help="The file, or standard input, holds the bytes themselves, not hex.")]
Header = Annotated[bool, typer.Option("--header", help="The request or response header comes first.")]
Frame = Annotated[bool, typer.Option("--frame", help="The length comes first, then the header.")]
Capture = Annotated[
    str | None,
    typer.Option(
        metavar="@FILE|-",
        help="Instead of a message: what a client sent on one connection, frame after frame, as bytes.",
    ),
]
Responses = Annotated[
    str | None,
    typer.Option(
        metavar="@FILE|-",
        help="With --capture: what the broker answered on that connection. An answer does not say what it answers, so "
        "it is read by the request with its correlation id.",
    ),
]
RawOutput = Annotated[bool, typer.Option("--raw", help="Write the bytes themselves, not hex.")]


@wire_commands.command("decode")
def decode_bytes(
    message: MaybeMessage = None,
    version: MaybeVersion = None,
    data: Data = "-",
    raw: Raw = False,
    header: Header = False,
    frame: Frame = False,
    capture: Capture = None,
    responses: Responses = None,
) -> None:
    """Print a message as JSON.

    Bytes are printed as {"$b64": ...}, UUIDs as {"$uuid": ...}. With --capture and --responses, each frame becomes a
    line of JSON.
    """
    with clean_exits(), wrong_usage():
        if capture is not None:
            if message is not None or raw or header or frame:
                raise ConfigError(
                    "--capture goes with --responses alone; a capture says itself which messages it holds"
                )
            _print_capture(capture, responses)
            return
        if message is None or version is None:
            raise ConfigError("say which MESSAGE in which VERSION to decode, or give a --capture")
        if responses is not None:
            raise ConfigError("--responses needs the requests that they answer: --capture")
        _print_message(message, version, read_bytes(data, raw=raw), header=header, frame=frame)


@wire_commands.command("encode")
def encode_fields(message: Message, version: Version, fields: Fields = "-", raw: RawOutput = False) -> None:
    """Print the bytes of a message as hex.

    The JSON is what `decode` prints; a field that is left out has its default. The bytes are the message alone,
    without header and length.
    """
    from kwire.protocol import encode

    with clean_exits(), wrong_usage():
        data = encode(message, version, read_object(fields))
        Output.standard().write(data if raw else f"{data.hex()}\n".encode())


@wire_commands.command("show")
def show_layout(message: MaybeMessage = None, version: MaybeVersion = None) -> None:
    """Print the fields of a message, or the list of messages."""
    from kwire.cli.wire_show import describe_message, list_messages

    with clean_exits(), wrong_usage():
        lines = list_messages() if message is None else describe_message(message, version)
        Output.standard().write("".join(f"{line}\n" for line in lines).encode())


@contextmanager
def wrong_usage() -> Iterator[None]:
    """What the library calls an invalid argument was, here, a wrong command."""
    try:
        yield
    except (InvalidArgumentError, UnsupportedVersionError) as error:
        raise ConfigError(str(error)) from error


def _print_message(name: str, version: int, data: bytes, *, header: bool, frame: bool) -> None:
    from kwire.cli.wire_capture import decode_frame, decode_with_header
    from kwire.protocol.plain import to_json
    from kwire.protocol.registry import decode, message_class

    if frame:
        shown = decode_frame(message_class(name), version, data)
    elif header:
        shown = decode_with_header(message_class(name), version, data)
    else:
        shown = to_json(decode(name, version, data))
    Output.standard().write(f"{json.dumps(shown, indent=2, ensure_ascii=False)}\n".encode())


def _print_capture(capture: str, responses: str | None) -> None:
    from kwire.cli.wire_capture import read_requests, read_responses

    requests = read_requests(read_bytes(capture, raw=True))
    answers = [] if responses is None else read_responses(read_bytes(responses, raw=True), requests)
    lines = (json.dumps(frame.to_json(), ensure_ascii=False) for frame in (*requests, *answers))
    Output.standard().write("".join(f"{line}\n" for line in lines).encode())
