"""Settings of commands: files, environment and flags, and who wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cli.config_files import SettingLine, read_config_file
from kwire.cli.settings import collect_settings
from kwire.config import SETTINGS, ConsumerConfig, Endpoint, Secret
from kwire.config.properties import parse_properties
from kwire.errors import ConfigError

NOWHERE: dict[str, str] = {}


def collect(
    *properties: str,
    flags: dict[str, str] | None = None,
    environ: dict[str, str] = NOWHERE,
    file: Path | None = None,
    defaults: dict[str, object] | None = None,
) -> dict[str, object]:
    return collect_settings(
        flags=[SettingLine(f"--{name}", name, value) for name, value in (flags or {}).items()],
        properties=properties,
        environ=environ,
        file=file,
        defaults=defaults or {},
    )


@pytest.fixture
def properties_file(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text("group.id=from-file\nmax.poll.records=3\nfetch.min.bytes=4\nclient.id=from-file\n")
    return path


def test_flags_win_over_environment_over_file_over_defaults(properties_file: Path) -> None:
    settings = collect(
        "fetch.min.bytes=2",
        flags={"group_id": "from-flag"},
        environ={"KWIRE_GROUP_ID": "from-env", "KWIRE_MAX_POLL_RECORDS": "5", "KWIRE_FETCH_MIN_BYTES": "6"},
        file=properties_file,
        defaults={"check_crcs": False, "client_id": "from-defaults"},
    )
    assert settings == {
        "check_crcs": False,
        "client_id": "from-file",
        "group_id": "from-flag",
        "max_poll_records": 5,
        "fetch_min_bytes": 2,
    }


def test_what_is_collected_makes_a_config() -> None:
    settings = collect("auto.offset.reset=by_duration:PT1H", environ={"KWIRE_BOOTSTRAP_SERVERS": "a:1,b:2"})
    assert ConsumerConfig.of(settings).bootstrap_servers == (Endpoint("a", 1), Endpoint("b", 2))


def test_every_setting_can_come_from_the_environment() -> None:
    environ = {f"KWIRE_{name.upper()}": "" for name in SETTINGS} | {"KWIRE_CHECK_CRCS": "false"}
    assert collect(environ=environ) == {"check_crcs": False}


def test_other_variables_are_left_alone() -> None:
    assert collect(environ={"KWIRE_CACHE": "x", "PATH": "y", "GROUP_ID": "z", "kwire_group_id": "z"}) == {}


def test_a_variable_that_is_nearly_a_setting_is_a_slip() -> None:
    with pytest.raises(ConfigError, match=r"KWIRE_GROUPID is no setting; did you mean KWIRE_GROUP_ID\?"):
        collect(environ={"KWIRE_GROUPID": "g"})


@pytest.mark.parametrize(
    ("environ", "properties", "message"),
    [
        ({"KWIRE_MAX_POLL_RECORDS": "0"}, [], "KWIRE_MAX_POLL_RECORDS: max_poll_records='0': out of range; valid: "),
        ({}, ["max.poll.records=0"], "-X max.poll.records: max_poll_records='0': out of range; valid: 1 to "),
        ({}, ["group.id= "], "-X group.id: group_id is blank"),
        ({}, ["grup.id=g"], "-X grup.id: unknown setting 'grup.id'; did you mean 'group.id'?"),
        ({}, ["group.id"], "-X group.id: write name=value"),
        ({}, ["group.id=a", "group_id=b"], "group_id is given twice, by -X group.id and by -X group_id; give it once"),
    ],
)
def test_errors_say_where_the_value_comes_from(environ: dict[str, str], properties: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        collect(*properties, environ=environ)
    assert str(caught.value).startswith(message)


def test_a_flag_and_a_property_for_the_same_setting_are_one_too_many() -> None:
    with pytest.raises(ConfigError, match=r"group_id is given twice, by --group_id and by -X group\.id"):
        collect("group.id=b", flags={"group_id": "a"})


def test_errors_in_files_have_a_line(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# comment\nclient.id=a\n\nmax.poll.records=many\n")
    with pytest.raises(ConfigError) as caught:
        collect(file=path)
    assert str(caught.value).startswith(f"{path}:4: max_poll_records='many': not a whole number")


def test_deserializers_of_a_java_file_make_the_bytes_that_are_printed(tmp_path: Path) -> None:
    """They were dropped without a word, and numbers printed as eight raw bytes."""
    path = tmp_path / "client.properties"
    java = "org.apache.kafka.common.serialization"
    path.write_text(f"key.deserializer={java}.StringDeserializer\nvalue.deserializer={java}.LongDeserializer\n")
    settings = collect(file=path)
    assert settings["key_deserializer"] is None
    decode = settings["value_deserializer"]
    assert callable(decode)
    assert decode((7).to_bytes(8, "big")) == b"7"


def test_truth_is_printed_as_java_prints_it(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("value.deserializer=org.apache.kafka.common.serialization.BooleanDeserializer\n")
    decode = collect(file=path)["value_deserializer"]
    assert callable(decode)
    assert decode(b"\1") == b"true"


def test_a_deserializer_that_cannot_be_had_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("value.deserializer=com.example.Mine\n")
    with pytest.raises(ConfigError, match=r"client.properties:1: .*kwire does not have"):
        collect(file=path)


def test_settings_without_effect_are_left_out_and_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "client.properties"
    path.write_text("metrics.recording.level=INFO\nmetric.reporters=\ngroup.id=g\n")
    assert collect(file=path) == {"group_id": "g"}
    (line,) = caplog.messages
    assert "metrics.recording.level" in line
    assert "metric.reporters" in line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b")]),
        ("a = b ", [("a", "b ")]),
        ("a: b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("  a\t=\tb", [("a", "b")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("a=b=c:d", [("a", "b=c:d")]),
        ("\n# x=y\n! z\n a=b", [("a", "b")]),
        ("a=b\\\n   c\nd=e", [("a", "bc"), ("d", "e")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\\n# not a comment", [("a", "b# not a comment")]),
        ("a=b\\", [("a", "b")]),
        (r"a\=b\ c=d", [("a=b c", "d")]),
        (r"a=\t\n\u00e4\q\\", [("a", "\t\näq\\")]),
        ("a=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("", []),
    ],
)
def test_properties_are_read_as_java_does(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(name, value) for _line, name, value in parse_properties(text)] == expected


def test_lines_are_counted_over_continuations() -> None:
    assert [line for line, _name, _value in parse_properties("a=b\\\nc\n\nd=e\n")] == [1, 4]


def test_toml_takes_either_spelling(tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    path.write_text('bootstrap_servers = ["a:1", "b:2"]\nauto.offset.reset = "earliest"\n[max.poll]\nrecords = 7\n')
    assert [(name, value) for _source, name, value in read_config_file(path)] == [
        ("bootstrap_servers", ["a:1", "b:2"]),
        ("auto.offset.reset", "earliest"),
        ("max.poll.records", 7),
    ]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("missing.properties", None, "No such file or directory"),
        ("latin1.toml", b"a=\xe4", "not UTF-8 at byte 2"),
        ("bad.toml", b"a = ", "Invalid value"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes | None, why: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_config_file(path)
    assert str(caught.value).startswith(f"cannot read {path}: {why}")


# --- secrets ------------------------------------------------------------------------------------------------------


def test_secrets_come_from_the_environment_over_a_file_and_nobody_is_warned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=from-file\n")
    settings = collect(environ={"KWIRE_SASL_PASSWORD": "from-env"}, file=path)
    assert settings["sasl_password"] == Secret("from-env")
    assert "from-" not in f"{settings} {caplog.text}"
    assert caplog.messages == []


def test_secrets_in_flags_are_warned_of_once_by_name(caplog: pytest.LogCaptureFixture) -> None:
    settings = collect("sasl.password=seen", "ssl_key_password=seen", "sasl.username=a")
    assert settings["sasl_password"] == Secret("seen")
    (message,) = caplog.messages
    assert message.startswith("-X sasl.password, -X ssl_key_password: every user of this machine can see a secret")
    assert "seen" not in message


@pytest.mark.parametrize("given", ["sasl.password:seen", "sasl.password seen", "=seen"])
def test_what_is_no_setting_is_not_shown_whole(given: str) -> None:
    with pytest.raises(ConfigError) as caught:
        collect(given)
    assert "write name=value" in str(caught.value)
    assert "seen" not in str(caught.value)


def test_lines_do_not_show_their_values() -> None:
    assert repr(SettingLine("file:1", "sasl.password", "seen")) == "<sasl.password of file:1>"
