"""A program that talks like a verifiable consumer and knows no Kafka: started by tests of what listens to members.

    talking_member.py MANNER ...    with Kafka's flags behind the manner, of which it looks at none

Manners: `plain` talks until it is told to end; `leaving` closes by itself; `failing-once` does so the first time;
`crashing` ends without a word; `mute` never says anything; `babbling` says what is no line; `stubborn` does not end
when it is told to.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from types import FrameType

PARTITION = {"topic": "orders", "partition": 0}
TALK_EVERY_S = 0.01


def say(name: str, **fields: object) -> None:
    line = json.dumps({"timestamp": time.time_ns() // 1_000_000, "name": name, **fields})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Talk:
    """What it says, in its manner."""

    def __init__(self, manner: str, *, is_first: bool) -> None:
        self.manner = manner
        self.has_to_end = False
        self.leaves = manner == "leaving" or (manner == "failing-once" and is_first)

    def end(self, _signal: int, _frame: FrameType | None) -> None:
        self.has_to_end = self.manner != "stubborn"

    def run(self) -> None:
        if self.manner == "mute":
            sys.exit("no such broker")
        say("startup_complete")
        say("partitions_assigned", partitions=[PARTITION])
        if self.manner == "babbling":
            sys.stdout.write("something happened\n")
        if self.manner == "crashing":
            sys.exit("a bug")
        if self.manner == "failing-once" and self.leaves:
            sys.stderr.write("a bad batch\n")
            sys.stderr.flush()
        while not (self.has_to_end or self.leaves):
            say("poll_failed", error="Nothing", message="there is no Kafka")
            time.sleep(TALK_EVERY_S)
        say("shutdown_requested")
        say("partitions_revoked", partitions=[PARTITION])
        say("shutdown_complete")


if __name__ == "__main__":
    talk = Talk(sys.argv[1], is_first=any(".1/member.properties" in flag for flag in sys.argv))
    signal.signal(signal.SIGTERM, talk.end)
    talk.run()
