"""The frames of a schema registry, of a whole Arrow column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.deserializers.arrow_columns import data_of, offsets_of
from kwire.deserializers.registry import FRAME_BYTES, MAGIC, MAX_SCHEMA, FrameError, check_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from kwire.serialization_context import SerializationContext


def check_frames(column: pa.BinaryArray, ctx: SerializationContext) -> NDArray[np.int64]:
    """The number of each value's schema, -1 of a null.

    Raises:
        FrameError: A value has no frame, or one that names its schema by a UUID.
    """
    starts = offsets_of(column).astype(np.int64)
    is_there = np.asarray(column.is_valid())
    found = np.full(len(column), -1, np.int64)
    begins = (starts[:-1] - starts[0])[is_there]
    data = np.frombuffer(data_of(column), np.uint8)
    is_framed = np.diff(starts)[is_there] >= FRAME_BYTES
    is_framed[is_framed] = data[begins[is_framed]] == MAGIC
    is_framed[is_framed] = data[begins[is_framed] + 1] <= MAX_SCHEMA >> 24
    if not is_framed.all():
        check_frame(column.drop_null()[int(is_framed.argmin())].as_py(), ctx)
        raise FrameError("a schema that is named by a UUID: read such records by iteration, not as columns")
    if len(begins):
        found[is_there] = data[begins[:, None] + np.arange(1, FRAME_BYTES)].copy().view(">u4")[:, 0]
    return found
