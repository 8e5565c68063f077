"""The program: it parses arguments and returns an exit code. 0: the work has ended, also after an error, which is
logged; 1: it could not begin; 128 + n: signal n ended it. Java's program has the same codes.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Protocol

from kwire.cli.output import Output, OutputError
from kwire.consumer.sync import Consumer
from kwire.errors import KafkaError
from kwire.verifiable_consumer.arguments import VerifiableOptions, argument_parser, parse
from kwire.verifiable_consumer.consumer import TellingListener, VerifiableConsumer
from kwire.verifiable_consumer.events import EventLog
from kwire.verifiable_consumer.orders import ProcessingOrders

DONE = 0
FAILED = 1


def main(arguments: Sequence[str]) -> int:
    """Run the program. Returns the exit code."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)  # to stderr
    if not arguments:
        argument_parser().print_help()
        return DONE
    try:
        options = parse(arguments)
        events = EventLog(Output.standard())
        program = _new_program(options, events)
    except KafkaError as error:
        sys.stderr.write(f"verifiable-consumer: {error}\n")
        return FAILED
    with Shutdown(events, program.stop) as shutdown:
        program.run()
    return DONE if shutdown.received is None else 128 + shutdown.received


class Program(Protocol):
    """A loop that runs until a signal handler asks it to end."""

    def run(self) -> None: ...
    def stop(self) -> None: ...


def _new_program(options: VerifiableOptions, events: EventLog) -> Program:
    if options.processing is not None:
        from kwire.verifiable_consumer.processing import TellingConsumer, VerifiableProcessor

        return VerifiableProcessor(
            TellingConsumer(events, options.settings, tells_records=options.verbose),
            events,
            options.topic,
            options.processing,
            listener=TellingListener(events, tells_losses=options.orders is not None),
            orders=options.orders,
        )
    if options.catches_up:
        from kwire.verifiable_consumer.catching_up import CatchingUpConsumer

        return CatchingUpConsumer(
            Consumer(config=options.settings),
            events,
            options.topic,
            auto_commit=options.auto_commit,
            verbose=options.verbose,
            orders=None if options.orders is None else ProcessingOrders(options.orders),
        )
    return VerifiableConsumer(
        Consumer(config=options.settings),
        events,
        options.topic,
        max_messages=options.max_messages,
        auto_commit=options.auto_commit,
        verbose=options.verbose,
        orders=None if options.orders is None else ProcessingOrders(options.orders),
    )


class Shutdown:
    """Within its `with`, the first signal to end asks the consumer to close; further ones change nothing.

    `shutdown_requested` is printed once, also at an end without a signal: Java prints it in a shutdown hook.
    A signal that the starting program ignores (as `nohup` does) stays ignored.
    """

    NUMBERS = tuple(number for number in signal.Signals if number.name in ("SIGTERM", "SIGINT", "SIGHUP"))

    def __init__(self, events: EventLog, wakeup: Callable[[], None]) -> None:
        self.received: int | None = None
        self._events = events
        self._wakeup = wakeup
        self._previous: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Shutdown:
        for number in self.NUMBERS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.received is None:
            self._events.shutdown_requested()
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.received is not None:
            return
        self.received = number
        # The reader has gone: the interrupted loop, which is about to end, must not fail because of that.
        with suppress(BrokenPipeError, OutputError):
            self._events.shutdown_requested()
        self._wakeup()
