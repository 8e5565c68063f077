"""How much work a call is, in bytecode instructions: the same number on each machine, however busy it is."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import TraceFunction


def instructions_of(call: Callable[[], object]) -> int:
    """How many instructions `call` takes, with all that it calls. What is written in C counts as one."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()  # that of coverage
    gc.disable()  # finalizers of what others have left would be counted
    sys._getframe().f_trace_opcodes = True  # Python 3.12 traces instructions only if a frame wants it by now
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count
