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


def test_a_location_may_be_a_uri(tmp_path: Path) -> None:
    InitialOffsets(f"file://{tmp_path}").add({T0: 5})
    assert InitialOffsets(str(tmp_path)).read() == {T0: 5}


def test_an_unknown_kind_of_location_is_refused() -> None:
    with pytest.raises(OptionError, match=r"Option 'kwire\.checkpointLocation': cannot use nowhere://x/y"):
        InitialOffsets("nowhere://x/y")
