"""Mutants that no test can tell from the code, each with the reason. They do not count.

Each entry names a function, a line of it by what stands there, and, where only one change of that line is meant, the
change. So it stays right when lines move; a test fails over one that fits no mutant any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tools.mutate.mutant import Mutant


class Argued(NamedTuple):
    """Mutants that no test can tell from the code, and why.

    Args:
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
    Argued("managers/classic_group: ClassicGroupManager.on_heartbeat", '"heartbeat"', "heartbeatX", _WORDS),
    Argued("managers/heartbeat", "PAST_SESSION_MS = 60.0", "", "a choice: a few milliseconds more or less are as good"),
    Argued("protocol/decoded_size", "OBJECT_BYTES = 32", "", "a choice: about what CPython takes"),
    Argued("protocol/decoded_size", "VIEW_BYTES = 200", "", "a choice: about what CPython takes"),
    Argued("protocol/decoder_runtime: room_behind_tags", "if room < 0:", "", "a bound of memory: a byte more or less"),
    Argued("protocol/decoder_runtime: bad_count", "room < 0", "", "a bound of memory: a byte more or less"),
    Argued("protocol/record_few: _rows", "_GREATEST_BASE", "", "at the bound itself both ways are right"),
    Argued(
        "protocol/record_portions", "MAX_PORTION_RECORDS = 1_000_000", "", "a choice of how much is decoded at once"
    ),
    Argued("protocol/record_portions", "MAX_PORTION_BYTES = 16", "", "a choice of how much is decoded at once"),
    Argued("protocol/zstd_library: inflate_zstd", "_MAX_KEPT_BYTES", "", "a choice of what memory is kept"),
    Argued("protocol/compression_buffer: InflationBuffer.finish", "2 * len(used)", "", "whether to copy or to lend"),
    # --- how fast, and not what ---------------------------------------------------------------------------------
    *(
        Argued(f"protocol/{place}", text, "", "chooses between two ways that give the same result")
        for place, text in (
            ("record_boundaries", "_TRIED_BATCHES = 4"),
            ("record_boundaries", "_ROUND_COST_RECORDS = 500"),
            ("record_boundaries", "_GUESS_COST_DIVISOR = 5"),
            ("record_boundaries", "_PATIENCE_DIVISOR = 4"),
            ("record_boundaries", "_FIRST_GUESS_RECORDS = 64"),
            ("record_boundaries", "_GUESS_GROWTH = 4"),
            ("record_boundaries: find_records", "is_guessable"),
            ("record_boundaries: find_records", "loss += _ROUND_COST_RECORDS"),
            ("record_boundaries: find_records", "if found * 2 > guessed:"),
            ("record_boundaries: find_records", "longest *= _GUESS_GROWTH"),
            ("record_boundaries: _sizes_vary", "varying"),
            ("record_copies", "_GATHER_BELOW_BYTES = 4096"),
            ("record_copies", "_GATHER_BYTES = 128"),
            ("record_copies", "_STRETCH_BYTES = 512"),
            ("record_copies", "_CUT_BELOW_BYTES = 1536"),
            ("record_copies", "_MIN_ROWS = 8"),
            ("record_copies", "_FEW_ROWS = 16"),
            ("record_copies", "_SAME_BELOW_BYTES = 64"),
            ("record_copies: _Stretch.cut", "if len(lengths) > _FEW_ROWS"),
            ("record_copies: copy_in_stretches", "step = max(_MIN_ROWS"),
            ("record_copies: copy_in_stretches", "is_cut ="),
            ("record_headers", "_LOOP_BELOW_RECORDS = 40"),
            ("record_headers", "_MAX_ALIKE_BYTES = 1024"),
            ("record_headers: _Walk.run", "while rows.size >= _LOOP_BELOW_RECORDS:"),
            ("record_batch_columns", "MANY_BATCHES = 48"),
            ("record_batch_columns: _columns", "bits & _GREAT_OFFSET_BIT"),
            ("record_decoding: _are_few", "len(batches) <= MAX_FEW_RECORDS"),
            ("record_payloads: Inflation.payloads", "if self._is_plain else self._inflated()"),
            ("record_varints: read_varints", "if not len(first) or first.max() < 0x80:"),
            ("record_batch: find_batches", "end > size_bytes"),
            ("framing: Framing._take_small", "self.last_was_large = False"),
        )
    ),
    Argued(
        "protocol/record_boundaries: _guess_round",
        "if wrong.any():",
        "always",
        "a shortcut: where nothing is wrong the rest comes to the same",
    ),
    Argued(
        "protocol/record_boundaries: _differing",
        "shift = np.minimum(length_bytes - 1, nth)",
        "- -> +",
        "to compare a byte more makes a guess fail that would be right, and then it is looked for",
    ),
    # --- checks beside checks -----------------------------------------------------------------------------------
    *(
        Argued(f"protocol/{place}", "strict=True", "True -> False", "both are of one length by construction")
        for place in (
            "record_boundaries: _starts_and_ends",
            "record_boundaries: _damage",
            "record_columns: join_columns",
            "record_headers: join_headers",
        )
    ),
    Argued(
        "protocol/record_portions: split",
        "MIN_RECORD_BYTES - 1 <= length",
        "1 -> 2",
        "what is too short for a record is refused when it is decoded, in the same words",
    ),
    Argued(
        "protocol/record_control: _first_key_and_value",
        "if not 0 <= length <= len(payload) - at:",
        "never",
        "the fields of a record that is too long end behind the payload, and are refused",
    ),
    Argued(
        "protocol/record_batch: next_sound_offset",
        'base_offset = int.from_bytes(view[start : start + 8], "big", signed=True)',
        "True -> False",
        "no offset is negative",
    ),
    # --- shortcuts ----------------------------------------------------------------------------------------------
    Argued(
        "managers/list_offsets: ListOffsetsManager.poll",
        "if not self._queries and not self._sent:",
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
