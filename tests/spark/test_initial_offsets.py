"""Where a query began, in the file and the form of Spark's own source."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire import TopicPartition
from kwire.spark.errors import OptionError
from kwire.spark.initial_offsets import InitialOffsets

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_what_was_first_counts(tmp_path: Path) -> None:
    assert InitialOffsets(str(tmp_path)).read() is None
    assert InitialOffsets(str(tmp_path)).add({T0: 5, T1: 7}) == {T0: 5, T1: 7}
    assert InitialOffsets(str(tmp_path)).add({T0: 6, T1: 8}) == {T0: 5, T1: 7}
    assert InitialOffsets(str(tmp_path)).read() == {T0: 5, T1: 7}


def test_the_file_is_the_one_that_sparks_own_source_writes(tmp_path: Path) -> None:
    InitialOffsets(str(tmp_path), 2).add({T1: 7, T0: 5})
    assert [path.name for path in (tmp_path / "sources/2").iterdir()] == ["0"]
    assert (tmp_path / "sources/2/0").read_bytes() == b'\0v1\n{"t":{"0":5,"1":7}}'


@pytest.mark.parametrize("content", [b'\0v1\n{"t":{"1":7,"0":5}}', b'0{"t":{"0":5,"1":7}}'])
def test_what_sparks_own_source_wrote_is_read(tmp_path: Path, content: bytes) -> None:
    """The second is of Spark 2.1.0, which wrote no version; the first byte is skipped in any case."""
    (tmp_path / "sources/0").mkdir(parents=True)
    (tmp_path / "sources/0/0").write_bytes(content)
    assert InitialOffsets(str(tmp_path)).add({T0: 99}) == {T0: 5, T1: 7}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0v99\n{}", r"The maximum supported log version is v1, but encountered v99\."),
        (b"\0vx\n{}", "failed to read correct log version from vx"),
        (b"\0v1", "cannot be read"),
        (b"\0v1\n[]", "cannot be read"),
        (b"", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_not_written_over(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "sources/0").mkdir(parents=True)
    (tmp_path / "sources/0/0").write_bytes(content)
    with pytest.raises(OptionError, match=rf"^Failed to read log file file:{tmp_path}/sources/0/0\..*{message}"):
        InitialOffsets(str(tmp_path)).add({T0: 99})
    with pytest.raises(OptionError, match=rf"^Failed to read log file file:{tmp_path}/sources/0/0\."):
        InitialOffsets(f"file://{tmp_path}/").read()
    assert (tmp_path / "sources/0/0").read_bytes() == content


@pytest.mark.parametrize("scheme", ["file://", "file://localhost", "file:"])
@pytest.mark.parametrize("name", ["checkpoint", "a checkpoint", "a%20checkpoint", "a:b"])
def test_a_location_may_be_a_uri_of_a_file_as_hadoop_reads_it(tmp_path: Path, scheme: str, name: str) -> None:
    """That is where Spark's checkpoint is. With a space in it there was none, and %20 was one."""
    InitialOffsets(f"{scheme}{tmp_path}/{name}").add({T0: 5})
    assert [folder.name for folder in tmp_path.iterdir()] == [name]
    assert InitialOffsets(f"{tmp_path}/{name}").read() == {T0: 5}


@pytest.mark.parametrize("location", ["nowhere://x/y", "dbfs:/x/y", "nowhere:x"])
def test_an_unknown_kind_of_location_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str) -> None:
    """Those without two slashes were taken for paths, until pyarrow said that they are none."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=rf"Option 'kwire\.checkpointLocation': cannot use {location}: "):
        InitialOffsets(location).add({T0: 5})
