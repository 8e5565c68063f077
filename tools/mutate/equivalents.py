"""Mutants that no test can tell from the code, each with the reason. They do not count.

Each entry names a function, a line of it by what stands there, and, where only one change of that line is meant, the
change. So it stays right when lines move; a test fails over one that fits no mutant any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tools.mutate.mutant import Mutant


class Argued(NamedTuple):
    """Args:
    place: `managers/heartbeat: HeartbeatManager.poll`; without a function, all of the module.
    text: a part of the line.
    change: the change, or a part of it; all, if empty.
    """

    place: str
    text: str
    change: str
    why: str

    def fits(self, mutant: Mutant) -> bool:
        module, _, function = self.place.partition(": ")
        return (
            mutant.module == module
            and function in ("", mutant.function)
            and self.text in mutant.text
            and self.change in f"{mutant.kind}: {mutant.change}"
        )


_LONG_AGO = "a point in time that is over: one millisecond after the clock began is as long ago"
_WORDS = "a word of a message for people"

ARGUED: tuple[Argued, ...] = (
    # --- numbers of attempts ------------------------------------------------------------------------------------
    *(
        Argued(place, text, change, "a number that has to differ each time: any step, and any beginning, will do")
        for place, text in (
            ("managers/heartbeat: HeartbeatManager._poll_request", "self._sent += 1"),
            ("managers/consumer_group: ConsumerGroupManager._unsent", "number += 1"),
            ("managers/consumer_heartbeat: HeartbeatSchedule.give_up", "self.number += 1"),
            ("managers/consumer_heartbeat: HeartbeatSchedule.reset", "self.number += 1"),
            ("managers/telemetry: TelemetryManager._perform", "self._attempt += 1"),
            ("managers/telemetry: TelemetryManager.close", "self._attempt += 1"),
            ("managers/classic_member: ClassicMember.start_attempt", "self.attempt + 1"),
            ("managers/consumer_reconciliation: Reconciler._call_back", "self._attempt + 1"),
        )
        for change in ("arithmetic", "constant: 1 -> 2")
    ),
    *(
        Argued(place, text, "constant: 0 -> 1", "the number of the first attempt: any will do")
        for place, text in (
            ("managers/heartbeat: HeartbeatManager.__init__", "self._sent = 0"),
            ("managers/consumer_heartbeat: HeartbeatSchedule.__init__", "self.number = 0"),
            ("managers/telemetry: TelemetryManager.__init__", "self._attempt = 0"),
            ("managers/classic_member: ClassicMember.__init__", "Attempt(0)"),
            ("managers/consumer_reconciliation: Reconciler.__init__", "Attempt(0)"),
        )
    ),
    # --- points in time -----------------------------------------------------------------------------------------
    Argued("managers/consumer_heartbeat", "self._next_at_ms = 0.0", "0.0 -> 1.0", _LONG_AGO),
    Argued("managers/consumer_heartbeat", "self._sent_at_ms = 0.0", "0.0 -> 1.0", _LONG_AGO),
    Argued("managers/consumer_heartbeat", "0.0 if at_once", "0.0 -> 1.0", _LONG_AGO),
    Argued("managers/heartbeat", "_ms = 0.0", "0.0 -> 1.0", _LONG_AGO),
    Argued("managers/base", "not_before_ms = 0.0", "0.0 -> 1.0", _LONG_AGO),
    Argued("managers/topic_names", "not_before_ms = 0.0", "0.0 -> 1.0", _LONG_AGO),
    Argued("managers/telemetry", "self._due_ms = 0.0", "0.0 -> 1.0", _LONG_AGO),
    Argued("managers/fetch_connection", "self._sent_at_ms = 0.0", "0.0 -> 1.0", _LONG_AGO),
    Argued(
        "managers/operator_watch: _Heartbeats.__init__",
        "self._last_answer_ms = 0.0",
        "",
        "read only behind a look that has set it",
    ),
    Argued(
        "managers/operator_watch: _Polls.__init__",
        "self._seen_ms = -1.0",
        "",
        "the first look finds another time, whatever stands here",
    ),
    Argued("managers/operator_watch: _Polls.__init__", "self._told = 0", "", "the first look sets it"),
    # --- words, and numbers that are a choice -------------------------------------------------------------------
    Argued("managers/classic_join: ClassicJoin._on_join_answer", '"joining"', "joiningX", _WORDS),
    Argued("managers/classic_group: ClassicGroupManager.on_heartbeat_error", '"heartbeat"', "heartbeatX", _WORDS),
    Argued("managers/heartbeat", "PAST_SESSION_MS = 60.0", "", "a choice: a few milliseconds more or less are as good"),
    # --- shortcuts ----------------------------------------------------------------------------------------------
    Argued(
        "managers/list_offsets: ListOffsetsManager.poll",
        "if not self._queries:",
        "never",
        "a shortcut, for it is polled in each turn: without questions the rest comes to the same",
    ),
    # --- what is done a second time -----------------------------------------------------------------------------
    Argued(
        "managers/fetch: FetchManager._on_partition_error",
        "if followed is not None:",
        "always",
        "metrics are told that nobody is followed, which they knew",
    ),
    Argued(
        "managers/telemetry: TelemetryManager._answer_waiters",
        "each.done or each.abandoned",
        "or -> and",
        "one that is over is kept, and takes no second outcome",
    ),
)


def without_argued(mutants: Iterable[Mutant]) -> list[Mutant]:
    return [mutant for mutant in mutants if not any(each.fits(mutant) for each in ARGUED)]
