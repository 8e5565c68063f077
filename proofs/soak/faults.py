"""What strikes a soak: functions that strike, wait, and heal. All come in turn, in an order that is drawn."""

from __future__ import annotations

import random
import ssl
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.testing.faults.proxies.toxics import Bandwidth, Latency
from kwire.testing.kafka.guard import GuardOrder
from proofs.soak.member import WAYS
from proofs.soak.testbed import BROKERS, SESSION_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.testing.faults.proxies.toxics import Toxic
    from proofs.soak.group import Group
    from proofs.soak.testbed import Testbed

LASTS_S = 20.0
FROZEN_S = 1.5 * SESSION_MS / 1000
"""A session ends in it."""
CUT_OFF_S = 8.0
NARROW_KB_PER_S = 40
"""For each connection: less than the topic has."""
MIN_PAUSE_S = 5.0
NEAR_S = 45.0
"""So long after its end a fault may be felt: a session, a rebalance, a lag that is read."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that was. `end_s` is when it was healed."""

    name: str
    begin_s: float
    end_s: float


def pause_s(nth: int, every_s: float, warm_s: float, kinds: int) -> float:
    """How long nothing strikes before the `nth` fault. The first ones share half of the time to warm up."""
    return min(every_s, max(MIN_PAUSE_S, warm_s / 2 / kinds)) if nth < kinds else every_s


class Faults:
    """A thread that strikes every so often.

    Args:
        every_s: from a fault's end to the next one.
        warm_s: in this time all kinds strike once: the first fault of a kind may fill buffers as nothing did before.
        now_s: the run's clock.
    """

    def __init__(
        self, testbed: Testbed, group: Group, *, every_s: float, warm_s: float, seed: int, now_s: Callable[[], float]
    ) -> None:
        self._testbed, self._group = testbed, group
        self._every_s, self._warm_s, self._now_s = every_s, warm_s, now_s
        self._chance = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="faults")
        self._acting_since_s: float | None = None
        self.strikes: list[Strike] = []
        self.error: BaseException | None = None
        self._kinds: dict[str, Callable[[], None]] = {
            "broker killed": self._broker_killed,
            "broker restarted": self._broker_restarted,
            "broker cut off": self._broker_cut_off,
            "connections reset": self._connections_reset,
            "network slow": self._network_slow,
            "network narrow": self._network_narrow,
            "member frozen": self._member_frozen,
            "member killed": self._member_killed,
            "member leaves": self._member_leaves,
            "certificates renewed": self._certificates_renewed,
        }

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """After the one that is at work is healed."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def is_near(self, from_s: float, to_s: float) -> bool:
        """Whether a fault is felt between these."""
        began_s = self._acting_since_s
        if began_s is not None and began_s <= to_s:
            return True
        return any(strike.begin_s <= to_s and from_s <= strike.end_s + NEAR_S for strike in self.strikes)

    def _run(self) -> None:
        for name in self._drawn():
            if self._stopping.wait(pause_s(len(self.strikes), self._every_s, self._warm_s, len(self._kinds))):
                return
            self._acting_since_s = begin_s = self._now_s()
            try:
                self._kinds[name]()
            except BaseException as error:  # noqa: BLE001  a thread has nobody to raise to: the run looks here
                self.error = error
                return
            finally:
                self.strikes.append(Strike(name, begin_s, self._now_s()))
                self._acting_since_s = None

    def _drawn(self) -> Iterator[str]:
        """All kinds, then all again, each time in another order."""
        while True:
            names = list(self._kinds)
            self._chance.shuffle(names)
            yield from names

    def _broker(self) -> int:
        return self._chance.randrange(BROKERS)

    # --- brokers ------------------------------------------------------------------------------------------------

    def _broker_killed(self) -> None:
        broker = self._broker()
        self._testbed.cluster.kill_broker(broker)
        time.sleep(LASTS_S)
        self._testbed.cluster.start_broker(broker)

    def _broker_restarted(self) -> None:
        self._testbed.cluster.restart_broker(self._broker())

    def _certificates_renewed(self) -> None:
        """The clients' file and the brokers'; all brokers are started again, one after the other.

        Raises:
            AssertionError: a broker shows the former one.
        """
        before = self._shown(0)
        self._testbed.renew_client_certificate()
        self._testbed.cluster.renew_certificate()
        for broker in range(BROKERS):
            self._testbed.cluster.restart_broker(broker)
            assert self._shown(broker) != before, f"broker {broker} shows its former certificate"

    def _shown(self, broker: int) -> str:
        """The certificate of a broker, which may have been started a moment ago and not listen yet."""
        until_s = time.monotonic() + LASTS_S
        while True:
            try:
                return ssl.get_server_certificate(self._testbed.cluster.client_addresses[broker], timeout=LASTS_S)
            except OSError:
                if time.monotonic() > until_s:
                    raise
                time.sleep(0.1)

    # --- the network --------------------------------------------------------------------------------------------

    def _broker_cut_off(self) -> None:
        proxy = self._testbed.proxies[self._broker()]
        proxy.cut_off()
        time.sleep(CUT_OFF_S)
        proxy.heal()

    def _connections_reset(self) -> None:
        for proxy in self._testbed.proxies:
            proxy.hang_up(abruptly=True)

    def _network_slow(self) -> None:
        self._network_has(Latency(latency_ms=100, jitter_ms=50))

    def _network_narrow(self) -> None:
        self._network_has(Bandwidth(rate_kb_per_s=NARROW_KB_PER_S))

    def _network_has(self, toxic: Toxic) -> None:
        for proxy in self._testbed.proxies:
            proxy.toxics(toxic)
        time.sleep(LASTS_S)
        self._testbed.proxies.heal()

    # --- members ------------------------------------------------------------------------------------------------

    def _member_frozen(self) -> None:
        member = self._group.members[self._chance.choice(WAYS)]
        member.order(GuardOrder.PAUSE)
        time.sleep(FROZEN_S)
        member.order(GuardOrder.RESUME)

    def _member_killed(self) -> None:
        self._guest_ends(GuardOrder.KILL)

    def _member_leaves(self) -> None:
        self._guest_ends(GuardOrder.TERMINATE)

    def _guest_ends(self, order: GuardOrder) -> None:
        guest = self._group.invite()
        time.sleep(LASTS_S)
        guest.end(order)
