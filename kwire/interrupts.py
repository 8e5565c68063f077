"""Tells an exception that user code raised from one that a signal handler raised in the middle of it.

A signal handler runs on the main thread between any two lines, and what it raises (a time limit by SIGALRM, say) comes
out of the code that happened to run. It must not pass for the failure of a record's deserializer.
"""

from __future__ import annotations

import signal
from types import CodeType, TracebackType


def is_no_fault_of_a_record(error: BaseException) -> bool:
    """Whether another attempt may succeed, whatever the record is: memory was short, or a signal handler raised."""
    return isinstance(error, MemoryError) or is_of_signal_handler(error)


def is_of_signal_handler(error: BaseException) -> bool:
    """Whether a signal handler, written in Python and installed now, raised this."""
    handlers = [code for each in signal.valid_signals() if (code := _code_of(signal.getsignal(each))) is not None]
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: object) -> CodeType | None:
    """The code of a function, a method, or an object with `__call__`; None if it is not written in Python."""
    for function in (handler, getattr(handler, "__func__", None), vars(type(handler)).get("__call__")):
        if isinstance(code := getattr(function, "__code__", None), CodeType):
            return code
    return None
