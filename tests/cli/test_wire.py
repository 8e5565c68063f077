"""`kwire wire`: decode, encode and show, from arguments to output and exit code."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import kwire.cli
from kwire.protocol import decode, encode, encode_message
from kwire.protocol.framing import Framing
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.headers import ResponseHeader
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.produce import ProduceRequest
from kwire.protocol.registry import message_classes
from kwire.protocol.schema import Message, Request

HEARTBEAT = HeartbeatRequest(group_id="billing", generation_id=3, member_id="m-1")


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Wire:
    """Runs `kwire wire` with arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capfd = capfd

    def __call__(self, *arguments: str, stdin: bytes | None = b"") -> Ran:
        self._monkeypatch.setattr("sys.argv", ["kwire", "wire", *arguments])
        self._monkeypatch.setattr(sys, "stdin", None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as exited:
            kwire.cli.main()
        assert isinstance(exited.value.code, int)
        return Ran(exited.value.code, *self._capfd.readouterr())

    def fails(self, *arguments: str, stdin: bytes | None = b"") -> tuple[int, str]:
        """The exit code and the one line on stderr."""
        ran = self(*arguments, stdin=stdin)
        assert ran.out == ""
        assert ran.err.count("\n") == 1
        assert ran.err.startswith("kwire: ")
        return ran.code, ran.err.removeprefix("kwire: ").rstrip()


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Wire:
    return Wire(monkeypatch, capfd)


def framed(header: Message, header_version: int, body: Message, version: int) -> bytes:
    data = encode_message(header, header_version) + encode_message(body, version)
    return len(data).to_bytes(4, "big") + data


# --- decode ---------------------------------------------------------------------------------------------------


def test_a_standard_input_that_is_closed_is_told(wire: Wire) -> None:
    assert wire.fails("decode", "HeartbeatRequest", "4", stdin=None) == (2, "standard input is closed")


@pytest.mark.parametrize("way", ["argument", "spaced", "file", "stdin", "raw file", "raw stdin"])
def test_a_message_is_decoded_from_wherever_its_bytes_are(wire: Wire, tmp_path: Path, way: str) -> None:
    data = encode_message(HEARTBEAT, 4)
    file = tmp_path / "bytes"
    file.write_bytes(data if way.startswith("raw") else data.hex(" ", 4).encode() + b"\n")
    ran = {
        "argument": lambda: wire("decode", "HeartbeatRequest", "4", data.hex()),
        "spaced": lambda: wire("decode", "HeartbeatRequest", "4", f"0x{data.hex(' ', 2)}"),
        "file": lambda: wire("decode", "HeartbeatRequest", "4", f"@{file}"),
        "stdin": lambda: wire("decode", "HeartbeatRequest", "4", stdin=data.hex().encode()),
        "raw file": lambda: wire("decode", "HeartbeatRequest", "4", f"@{file}", "--raw"),
        "raw stdin": lambda: wire("decode", "HeartbeatRequest", "4", "-", "--raw", stdin=data),
    }[way]()
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == HEARTBEAT.to_dict(4)


def test_header_and_frame_are_decoded_on_demand(wire: Wire) -> None:
    frame = Framing("me").send(HEARTBEAT, 4)
    header = {"request_api_key": 12, "request_api_version": 4, "correlation_id": 0, "client_id": "me"}
    with_header = json.loads(wire("decode", "HeartbeatRequest", "4", frame[4:].hex(), "--header").out)
    assert with_header == {"header": header, "fields": HEARTBEAT.to_dict(4)}
    with_frame = json.loads(wire("decode", "HeartbeatRequest", "4", frame.hex(), "--frame").out)
    assert with_frame == {"size_bytes": len(frame) - 4, **with_header}
    answer = framed(ResponseHeader(correlation_id=9), 1, HeartbeatResponse(error_code=27), 4)
    shown = json.loads(wire("decode", "HeartbeatResponse", "4", answer.hex(), "--frame").out)
    assert (shown["header"], shown["fields"]["error_code"]) == ({"correlation_id": 9}, 27)


def test_a_capture_is_a_line_of_json_for_each_frame(wire: Wire, tmp_path: Path) -> None:
    client = Framing("me")
    requests: list[tuple[Request[Message], int]] = [(ApiVersionsRequest(), 4), (HEARTBEAT, 3), (HEARTBEAT, 4)]
    sent, received = tmp_path / "sent", tmp_path / "received"
    sent.write_bytes(b"".join(client.send(request, version) for request, version in requests))
    received.write_bytes(
        framed(ResponseHeader(correlation_id=0), 0, ApiVersionsResponse(error_code=35), 0)
        + framed(ResponseHeader(correlation_id=1), 0, HeartbeatResponse(), 3)
        + framed(ResponseHeader(correlation_id=2), 1, HeartbeatResponse(error_code=27), 4)
    )
    ran = wire("decode", "--capture", f"@{sent}", "--responses", f"@{received}")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert [(line["message"], line["version"]) for line in lines] == [
        ("ApiVersionsRequest", 4),
        ("HeartbeatRequest", 3),
        ("HeartbeatRequest", 4),
        ("ApiVersionsResponse", 0),  # the broker did not know version 4, and answered in 0 (KIP-511)
        ("HeartbeatResponse", 3),
        ("HeartbeatResponse", 4),
    ]
    assert [line["header"]["correlation_id"] for line in lines] == [0, 1, 2, 0, 1, 2]
    assert lines[1]["fields"] == HEARTBEAT.to_dict(3)
    assert lines[5]["fields"]["error_code"] == 27
    alone = wire("decode", "--capture", "-", stdin=sent.read_bytes())
    assert alone.out.splitlines() == ran.out.splitlines()[:3]


def test_bytes_that_do_not_follow_the_protocol_are_exit_1(wire: Wire) -> None:
    data = encode_message(HEARTBEAT, 4)
    frame = Framing("me").send(HEARTBEAT, 4)
    left = len(data) - 1
    assert wire.fails("decode", "HeartbeatRequest", "4", data[:-1].hex()) == (
        1,
        f"cannot decode HeartbeatRequest v4: tagged fields at byte {left}: the data ends after {left} bytes",
    )
    assert "left over" in wire.fails("decode", "HeartbeatRequest", "4", data.hex() + "00")[1]
    assert wire.fails("decode", "HeartbeatRequest", "4", frame.hex() + "00", "--frame") == (
        1,
        f"a frame of {len(frame) - 4} bytes, but {len(frame) - 3} follow its length",
    )


@pytest.mark.parametrize(
    ("capture", "problem"),
    [
        (b"\x00", "the capture at byte 0: a frame of 0 bytes where 1 are left"),
        (b"\xff\xff\xff\xff", "the capture at byte 0: a frame of -1 bytes where 4 are left"),
        (b"\x7f\xff\xff\xff", "the capture at byte 0: a frame of 2147483647 bytes where 4 are left"),
        (b"\x00\x00\x00\x02\x00\x0c", "the frame at byte 0: 2 bytes are too few for a request"),
        (b"\x00\x00\x00\x04\x7f\xff\x00\x00", "the frame at byte 0: kwire has no API with key 32767"),
        (b"\x00\x00\x00\x04\x00\x0c\x00\x04", "the frame at byte 0: cannot decode RequestHeader v2"),
        (b"\x00\x00\x00\x0b\x00\x0c\x00\x63" + bytes(7), "the frame at byte 0: HeartbeatRequest has versions 0 to 4"),
    ],
)
def test_a_broken_capture_says_where(wire: Wire, capture: bytes, problem: str) -> None:
    code, line = wire.fails("decode", "--capture", "-", stdin=capture)
    assert (code, line[: len(problem)]) == (1, problem)


def test_answers_without_their_requests_are_refused(wire: Wire, tmp_path: Path) -> None:
    sent, received = tmp_path / "sent", tmp_path / "received"
    sent.write_bytes(Framing("me").send(HEARTBEAT, 4))
    received.write_bytes(framed(ResponseHeader(correlation_id=5), 1, HeartbeatResponse(), 4))
    code, line = wire.fails("decode", "--capture", f"@{sent}", "--responses", f"@{received}")
    assert (code, line) == (1, "the frame at byte 0 answers 5, which none of the requests has")
    received.write_bytes(framed(ResponseHeader(correlation_id=0), 1, HeartbeatResponse(), 4)[:-1])
    assert wire.fails("decode", "--capture", f"@{sent}", "--responses", f"@{received}")[0] == 1
    received.write_bytes(b"\x00\x00\x00\x05\x00\x00\x00\x00\x00")
    code, line = wire.fails("decode", "--capture", f"@{sent}", "--responses", f"@{received}")
    assert line.startswith("the frame at byte 0: cannot decode HeartbeatResponse v4")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["decode"], "say which MESSAGE in which VERSION"),
        (["decode", "HeartbeatRequest"], "say which MESSAGE in which VERSION"),
        (["decode", "HeartbeatRequest", "4", "zz"], "'zz' is not hex"),
        (["decode", "HeartbeatRequest", "4", "00", "--raw"], "bytes come from a file or standard input"),
        (["decode", "HeartbeatRequest", "4", "@/nowhere/at/all"], "cannot read /nowhere/at/all: No such file"),
        (["decode", "HeartbeatRequest", "4", "00", "--responses", "-"], "--responses needs the requests"),
        (["decode", "HeartbeatRequest", "9", "00"], "HeartbeatRequest has versions 0 to 4 here, not 9"),
        (["decode", "Heartbeat", "4", "00"], "no message is called 'Heartbeat'; did you mean HeartbeatRequest or Hear"),
        (["decode", "HartbeatRequest", "4", "00"], "no message is called 'HartbeatRequest'; did you mean HeartbeatReq"),
        (["decode", "RequestHeader", "2", "00", "--header"], "RequestHeader is neither a request nor a response"),
        (["decode", "HeartbeatRequest", "--capture", "-"], "--capture goes with --responses alone"),
        (["encode", "HeartbeatRequest", "4", "{"], "'{' is not JSON"),
        (["encode", "HeartbeatRequest", "4", "[" * 100_000], "is not JSON that can be read: it is nested too"),
        (["encode", "HeartbeatRequest", "4", "[]"], "'[]' is not a JSON object"),
        (["encode", "HeartbeatRequest", "9", "{}"], "HeartbeatRequest has versions 0 to 4 here, not 9"),
        (["encode", "HeartbeatRequest", "4", '{"grup_id": ""}'], "has no field 'grup_id'; did you mean group_id"),
        (["encode", "SyncGroupResponse", "4", '{"assignment": {"$b64": "?"}}'], "SyncGroupResponse.assignment: '?' is"),
        (["encode", "PushTelemetryRequest", "0", '{"client_instance_id": {"$uuid": "x"}}'], "'x' is not a uuid"),
        (["show", "Fetsch"], "no message is called 'Fetsch'"),
        (["show", "HeartbeatRequest", "5"], "HeartbeatRequest has versions 0-4 here, not 5"),
    ],
)
def test_wrong_commands_are_exit_2_with_one_line(wire: Wire, arguments: list[str], problem: str) -> None:
    code, line = wire.fails(*arguments)
    assert code == 2
    assert problem in line


# --- encode ---------------------------------------------------------------------------------------------------


def test_fields_become_hex(wire: Wire, tmp_path: Path) -> None:
    file = tmp_path / "fields.json"
    file.write_text(json.dumps(HEARTBEAT.to_dict(4)))
    wanted = encode_message(HEARTBEAT, 4)
    assert wire("encode", "HeartbeatRequest", "4", f"@{file}").out == f"{wanted.hex()}\n"
    assert wire("encode", "HeartbeatRequest", "4", stdin=file.read_bytes()).out == f"{wanted.hex()}\n"
    assert wire("encode", "HeartbeatRequest", "4", "{}").out == f"{encode('HeartbeatRequest', 4, {}).hex()}\n"


def test_what_decode_prints_encode_takes(wire: Wire) -> None:
    fields = {"topic_data": [{"name": "t", "partition_data": [{"index": 1, "records": b"\x01\xff"}]}]}
    data = encode("ProduceRequest", 9, fields)
    printed = wire("decode", "ProduceRequest", "9", data.hex()).out
    assert wire("encode", "ProduceRequest", "9", printed).out == f"{data.hex()}\n"
    assert isinstance(decode("ProduceRequest", 9, data), ProduceRequest)


def test_values_that_do_not_fit_are_exit_1(wire: Wire) -> None:
    code, line = wire.fails("encode", "HeartbeatRequest", "4", '{"group_id": 1}')
    assert (code, line) == (1, "cannot encode HeartbeatRequest v4: group_id must be a str of valid Unicode, not 1")
    assert wire.fails("encode", "HeartbeatRequest", "4", '{"group_id": "\\ud800"}')[0] == 1


def test_raw_output_is_the_bytes(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    monkeypatch.setattr("sys.argv", ["kwire", "wire", "encode", "HeartbeatRequest", "4", "{}", "--raw"])
    with pytest.raises(SystemExit):
        kwire.cli.main()
    assert capfdbinary.readouterr().out == encode("HeartbeatRequest", 4, {})


# --- show -----------------------------------------------------------------------------------------------------


def test_show_lists_all_messages(wire: Wire) -> None:
    rows = [line.split() for line in wire("show").out.splitlines()]
    assert rows[0] == ["key", "message", "versions", "flexible"]
    assert rows[1] == ["0", "ProduceRequest", "3-13", "9+"]
    assert {row[1] if row[0].isdigit() else row[0] for row in rows[1:]} == set(message_classes())


def test_show_tells_all_versions_of_a_message(wire: Wire) -> None:
    lines = wire("show", "MetadataRequest").out.splitlines()
    assert lines[0] == "MetadataRequest, API key 3, versions 0-13, flexible: 9+"
    assert lines[2].split() == ["field", "type", "versions", "nullable", "tag", "default"]
    assert lines[3].split() == ["topics", "array", "of", "MetadataRequestTopic", "0+", "1+", "[]"]
    assert lines[4].split() == ["topic_id", "uuid", "10+", "zero"]
    assert lines[4].startswith("  topic_id")
    assert lines[7].split() == ["include_cluster_authorized_operations", "bool", "8-10", "false"]


def test_show_tells_one_version_as_it_is_written(wire: Wire) -> None:
    lines = [line.split() for line in wire("show", "FetchResponse", "16").out.splitlines()]
    assert " ".join(lines[0]) == "FetchResponse version 16, API key 1, behind response header 1"
    assert ["responses", "compact_array", "of", "FetchableTopicResponse", "0+", "[]"] in lines
    assert ["aborted_transactions", "compact_nullable_array", "of", "AbortedTransaction", "0+", "yes", "[]"] in lines
    assert ["diverging_epoch", "EpochEndOffset", "12+", "0"] in lines
    assert ["epoch", "int32", "12+", "-1"] in lines
    assert ["node_endpoints", "compact_array", "of", "NodeEndpoint", "16+", "0", "[]"] in lines
    assert "topic" not in [line[0] for line in lines[3:]]


@pytest.mark.parametrize("name", sorted(message_classes()))
def test_show_knows_every_message(wire: Wire, name: str) -> None:
    cls = message_classes()[name]
    for arguments in ([name], [name, str(cls.max_version)]):
        ran = wire("show", *arguments)
        assert ran.code == 0
        assert ran.out.startswith(name)
        assert "object at" not in ran.out


def test_show_says_when_there_are_no_fields(wire: Wire) -> None:
    assert wire("show", "ApiVersionsRequest", "2").out.splitlines()[2] == "no fields"
