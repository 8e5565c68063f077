"""What a pipeline does: from which topics, decoded how, to where. Made of settings by name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from typing import TypeVar

from kwire.errors import ConfigError

MIB = 1 << 20
DEFAULT_FILE_MIB = 128
DEFAULT_MASTER = "local[*]"
# The default place of the checkpoint, in the table's folder: names with an underscore are no part of a table.
CHECKPOINT_IN_TABLE = "_checkpoint"
TIME_PARTITIONS = ("date", "hour")

E = TypeVar("E", bound=Enum)


class Target(Enum):
    """Where records go."""

    PARQUET = "parquet"
    CONSOLE = "console"
    FUNCTION = "function"


class ValueFormat(Enum):
    """What the value of a record is. AVRO_FRAMED: with the five bytes in front that schema registries have."""

    BYTES = "bytes"
    TEXT = "text"
    JSON = "json"
    AVRO = "avro"
    AVRO_FRAMED = "avro-framed"


class OnBad(Enum):
    """What to do with a value that does not fit the schema: fail, or keep it as it is, in a column of its own."""

    FAIL = "fail"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePlan:
    """All that a pipeline needs to know.

    Attributes:
        topics: to subscribe to.
        path: the table's folder, for parquet.
        function: "module:function", called with a DataFrame and the number of the batch.
        checkpoint: where Spark keeps how far it is. None: nowhere, for the console alone.
        value_schema: Spark's DDL or JSON for json, Avro's JSON for avro.
        partition_by: columns of the table's folders; `date` and `hour` are those of the record's timestamp.
        file_mib: how large files should be, before compression.
        every_s: how long to collect records for a batch; None: a batch after the other.
        from_: as `startingOffsets`, or the milliseconds of `startingTimestamp` behind an @.
        source: options of the source, as `spark.readStream` takes them.
        spark: settings of the session.
    """

    topics: tuple[str, ...]
    bootstrap: str
    to: Target = Target.PARQUET
    path: str | None = None
    function: str | None = None
    checkpoint: str | None = None
    value_format: ValueFormat = ValueFormat.BYTES
    value_schema: str | None = None
    on_bad: OnBad = OnBad.FAIL
    partition_by: tuple[str, ...] = ()
    file_mib: int = DEFAULT_FILE_MIB
    every_s: float | None = None
    from_: str = "earliest"
    exit_at_end: bool = False
    fresh_first: bool = False
    master: str = DEFAULT_MASTER
    metrics: str | None = None
    source: Mapping[str, str] = field(default_factory=dict, repr=False)  # secrets may be among them
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)


def plan_from(settings: Mapping[str, object]) -> PipelinePlan:
    """The plan that the settings say.

    Args:
        settings: values by name, as flags and TOML have them: text, numbers, lists, and tables for `kafka`, `source`
            and `spark`.

    Raises:
        ConfigError: A name is unknown, a value is bad, or two do not go together; it says which.
    """
    for name in settings:
        if name not in NAMES:
            raise ConfigError(f"{name} is no setting of a pipeline{_nearest(name)}")
    kafka = {f"kafka.{name}": value for name, value in _table(settings, "kafka").items()}
    plan = PipelinePlan(
        topics=_words(settings, "topic"),
        bootstrap=_text(settings, "bootstrap") or "",
        to=_member(settings, "to", Target, Target.PARQUET),
        path=_text(settings, "path"),
        function=_text(settings, "function"),
        checkpoint=_text(settings, "checkpoint") or _own_checkpoint(settings),
        value_format=_member(settings, "value_format", ValueFormat, ValueFormat.BYTES),
        value_schema=_text(settings, "value_schema"),
        on_bad=_member(settings, "on_bad", OnBad, OnBad.FAIL),
        partition_by=_words(settings, "partition_by"),
        file_mib=int(_number(settings, "file_mib", DEFAULT_FILE_MIB)),
        every_s=_number(settings, "every_s", 0.0) or None,
        from_=_text(settings, "from") or "earliest",
        exit_at_end=_switch(settings, "exit_at_end"),
        fresh_first=_switch(settings, "fresh_first"),
        master=_text(settings, "master") or DEFAULT_MASTER,
        metrics=_text(settings, "metrics"),
        source={**kafka, **_table(settings, "source")},
        spark=_table(settings, "spark"),
    )
    for problem in _problems(plan):
        raise ConfigError(problem)
    return plan


NAMES = frozenset(
    {
        *("topic", "bootstrap", "kafka", "source", "from", "value_format", "value_schema", "on_bad", "fresh_first"),
        *("to", "path", "function", "checkpoint", "partition_by", "file_mib"),
        *("every_s", "exit_at_end", "master", "metrics", "spark"),
    }
)


def _nearest(name: str) -> str:
    found = get_close_matches(name, NAMES, n=1)
    return f"; did you mean {found[0]}?" if found else f"; there are {', '.join(sorted(NAMES))}"


def _own_checkpoint(settings: Mapping[str, object]) -> str | None:
    path = _text(settings, "path")
    return None if path is None else f"{path.rstrip('/')}/{CHECKPOINT_IN_TABLE}"


def _problems(plan: PipelinePlan) -> list[str]:
    """What does not go together."""
    wants_schema = plan.value_format not in (ValueFormat.BYTES, ValueFormat.TEXT)
    rules = {
        "say which topic to read": not plan.topics,
        "say where Kafka is: bootstrap, host:port": not plan.bootstrap,
        "say where the table is to be: path": plan.to is Target.PARQUET and plan.path is None,
        "path is for parquet": plan.to is not Target.PARQUET and plan.path is not None,
        "say what to call: function, as module:function": plan.to is Target.FUNCTION and plan.function is None,
        "function is for --to function": plan.to is not Target.FUNCTION and plan.function is not None,
        "say where to keep how far it is: checkpoint": plan.to is Target.FUNCTION and plan.checkpoint is None,
        "partition_by is for parquet": plan.to is not Target.PARQUET and bool(plan.partition_by),
        f"{plan.value_format.value} needs a value_schema": wants_schema and plan.value_schema is None,
        f"{plan.value_format.value} has no value_schema": not wants_schema and plan.value_schema is not None,
        f"file_mib is at least 1, not {plan.file_mib}": plan.file_mib < 1,
        f"every_s is no negative number, such as {plan.every_s}": plan.every_s is not None and plan.every_s < 0,
        "exit_at_end and every_s: what there is is read in one go": plan.exit_at_end and plan.every_s is not None,
    }
    own = {"subscribe", "assign", "subscribepattern", "kafka.bootstrap.servers"}
    given = [name for name in plan.source if name.lower() in own]
    return [said for said, is_so in rules.items() if is_so] + [
        f"{name} is not for source: a pipeline has topic and bootstrap" for name in given
    ]


# --- values -------------------------------------------------------------------------------------------------------


def _text(settings: Mapping[str, object], name: str) -> str | None:
    value = settings.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{name} is text, not {value!r}")
    return value or None


def _words(settings: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = settings.get(name, ())
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise ConfigError(f"{name} is a name, or a list of them, not {value!r}")
    return tuple(word for word in (str(each).strip() for each in given) if word)


def _number(settings: Mapping[str, object], name: str, default: float) -> float:
    value = settings.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name} is a number, not {value!r}")
    return value


def _switch(settings: Mapping[str, object], name: str) -> bool:
    value = settings.get(name, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is true or false, not {value!r}")
    return value


def _member(settings: Mapping[str, object], name: str, kind: type[E], default: E) -> E:
    value = settings.get(name, default.value)
    try:
        return kind(value)
    except ValueError:
        raise ConfigError(f"{name} is one of {', '.join(each.value for each in kind)}, not {value!r}") from None


def _table(settings: Mapping[str, object], name: str) -> dict[str, str]:
    """Options by name. TOML makes tables of dotted names, which are put together again."""
    value = settings.get(name, {})
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is a table of names and values, not {value!r}")
    return {key: _option(each) for key, each in _flat(value).items()}


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in table.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def _option(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
