"""Where a streaming query began, written down before its first batch.

Spark asks a Python source again where to start when it comes back before its first batch is through. If that is the
end of the log, what came in between would never be read. Spark's `kafka` source writes its answer into the query's
checkpoint; this is the same file in the same form, so that either finds what the other wrote.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from kwire.spark.errors import OptionError
from kwire.spark.offsets import Offsets, from_spark, to_json

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_VERSION = 1


class InitialOffsets:
    """The file of one source of a query.

    Args:
        checkpoint: The query's `checkpointLocation`: a path, or a URI of a file system that pyarrow knows.
        source_index: Which of the query's sources, counted from 0.

    Raises:
        OptionError: There is no such file system.
    """

    def __init__(self, checkpoint: str, source_index: int = 0) -> None:
        self._files, top = file_system(checkpoint)
        self._checkpoint = checkpoint.rstrip("/")
        self._source = f"sources/{source_index}"
        self._folder = f"{top.rstrip('/')}/{self._source}"
        self._path = f"{self._folder}/0"

    def read(self) -> Offsets | None:
        """What was written, None if nothing was.

        Raises:
            OptionError: The file is of a newer version, or of something else.
        """
        from pyarrow.fs import FileType

        if self._files.get_file_info(self._path).type is FileType.NotFound:
            return None
        with self._files.open_input_stream(self._path) as file:
            content = file.read()
        try:
            return parsed(content)
        except OptionError as error:
            raise OptionError(f"Failed to read log file {self._as_hadoop_prints_it()}. {error}") from error

    def _as_hadoop_prints_it(self) -> str:
        if self._files.type_name == "local":
            return f"file:{Path(self._path).absolute()}"
        return f"{self._checkpoint}/{self._source}/0"

    def add(self, offsets: Offsets) -> Offsets:
        """Write these offsets, unless some are written already; returns the ones that count."""
        if (written := self.read()) is not None:
            return written
        self._files.create_dir(self._folder, recursive=True)
        unfinished = f"{self._folder}/.0.{uuid4()}.tmp"
        with self._files.open_output_stream(unfinished) as file:
            file.write(formatted(offsets))
        self._files.move(unfinished, self._path)
        return offsets


def formatted(offsets: Offsets) -> bytes:
    """A zero byte, which Spark 2.1 wanted (SPARK-19517), the version, and the offsets."""
    return b"\0" + f"v{_VERSION}\n{to_json(offsets)}".encode()


def parsed(content: bytes) -> Offsets:
    """Raises: OptionError."""
    text = content[1:].decode()
    if text.startswith("v"):
        version, _, text = text.partition("\n")
        number = 0
        with suppress(ValueError):
            number = int(version[1:])
        if number > _VERSION:
            raise OptionError(
                "[INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION] UnsupportedLogVersion. The maximum supported log version "
                f"is v{_VERSION}, but encountered {version}. The log file was produced by a newer version of Spark and "
                "cannot be read by this version. You need to upgrade."
            )
        if number != _VERSION:
            raise OptionError(f"Log file was malformed: failed to read correct log version from {version}.")
    try:
        return from_spark(json.loads(text))
    except ValueError as error:
        raise OptionError(f"the initial offsets in the checkpoint cannot be read: {error}") from error


def file_system(checkpoint: str) -> tuple[FileSystem, str]:
    """Where a checkpoint is, with the words of Hadoop's paths: a colon in front of the first slash ends a scheme, and
    what follows `file:` is a path as it stands. Raises: OptionError, if that is no file system that pyarrow knows."""
    from pyarrow import ArrowInvalid
    from pyarrow.fs import FileSystem, LocalFileSystem  # not before there is one to ask: most streams name none

    scheme, colon, rest = checkpoint.partition(":")
    if not colon or "/" in scheme or len(scheme) == 1:  # the latter is a drive
        return LocalFileSystem(), checkpoint
    if scheme == "file":
        return LocalFileSystem(), f"/{rest[2:].partition('/')[2]}" if rest.startswith("//") else rest
    try:
        files, path = FileSystem.from_uri(checkpoint)
    except (ArrowInvalid, OSError) as error:
        raise OptionError(f"Option 'kwire.checkpointLocation': cannot use {checkpoint}: {error}") from error
    return files, path
