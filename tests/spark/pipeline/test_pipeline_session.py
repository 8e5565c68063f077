"""What a pipeline does about PySpark's ways with Ctrl-C."""

from __future__ import annotations

import signal

from kwire.spark.pipeline.session import own_ctrl_c


def test_ctrl_c_asks_the_command_to_stop_though_pyspark_installs_a_handler_of_its_own() -> None:
    """A batch under way used to be cancelled, in the middle of a call to the JVM, with pages of tracebacks."""
    before = signal.getsignal(signal.SIGINT)
    with own_ctrl_c():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what a new session does
    assert signal.getsignal(signal.SIGINT) is before
