"""The chain of proxies in front of each broker: client -> tampering proxy -> toxiproxy -> broker.

    with ProxiedBrokers(3, cache=cache_dir()) as proxied:
        with KafkaCluster(3, advertised=proxied.addresses) as kafka:
            proxied.lead_to(kafka.client_addresses)
            proxied[0].toxics(Latency(latency_ms=100))
            proxied[0].heal()

The proxies come before the brokers, which advertise their addresses; so clients never go around them. Toxiproxy accepts
connections for a broker that is down and then hangs up: `Refuse` has them refused, as they would be without proxies.
Called by the fault harness.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVarTuple, overload

from kwire.errors import IllegalStateError
from kwire.testing.faults.proxies.tampering import TamperingProxy
from kwire.testing.faults.proxies.tamperings import BlackHole, HoldBack, Tampering
from kwire.testing.faults.proxies.toxiproxy import ToxiproxyError
from kwire.testing.faults.proxies.toxiproxy_server import ToxiproxyServer

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from kwire.testing.faults.proxies.orders import Counts
    from kwire.testing.faults.proxies.toxics import Toxic
    from kwire.testing.faults.proxies.toxiproxy import Toxiproxy


Ts = TypeVarTuple("Ts")


class BrokerProxy:
    """Both proxies of one broker. Any thread may call, one at a time.

    Toxiproxy changes toxics only while bytes flow: one connection whose reader has stopped, such as a frozen client,
    keeps it waiting, and when that connection then breaks, for ever. So if it does not answer, another of its proxies
    takes over, and the broker's connections are reset.

    Args:
        label: The broker's, for toxiproxy.
        tampering: The proxy, which runs already.
        toxiproxy: The proxy, which runs already.
    """

    def __init__(self, label: str, tampering: TamperingProxy, toxiproxy: Toxiproxy) -> None:
        self._label = label
        self._tampering = tampering
        self._toxiproxy = toxiproxy
        self._upstream: str | None = None
        self._name = ""  # of toxiproxy's proxy
        self._toxics: dict[str, Toxic] = {}

    def __repr__(self) -> str:
        return f"<BrokerProxy: {self._label}, {self._tampering}>"

    @property
    def address(self) -> tuple[str, int]:
        """The address that clients connect to."""
        return self._tampering.address

    def lead_to(self, host: str, port: int) -> None:
        """Set the broker; may be called again when it has moved. Before the first call clients are refused."""
        former, self._upstream = self._name, f"{host}:{port}"
        self._renew()
        if former:
            self._toxiproxy.delete(former)

    def toxics(self, *toxics: Toxic) -> tuple[str, ...]:
        """Add toxics of toxiproxy. Returns their names, for `untoxic`.

        Raises:
            IllegalStateError: There is one of that kind on that stream already, or no broker yet.
        """
        return tuple(self._add(each) for each in toxics)

    def untoxic(self, name: str) -> None:
        """Remove a toxic, if it is still there."""
        if self._toxics.pop(name, None) is not None:
            self._change(self._toxiproxy.remove, name)

    def tamper(self, *tamperings: Tampering) -> None:
        """Add tamperings of the tampering proxy."""
        self._tampering.tamper(*tamperings)

    def lift(self, tampering: Tampering) -> None:
        """Remove a tampering."""
        self._tampering.lift(tampering)

    def cut_off(self) -> None:
        """Partition this broker from all clients: no bytes pass, and no client can connect. Delayed bytes arrive after
        `heal`."""
        self._tampering.tamper(HoldBack(), BlackHole())

    def hang_up(self, *, abruptly: bool = False) -> int:
        """Close every connection, with a reset if `abruptly`. Returns how many there were."""
        return self._tampering.hang_up(abruptly=abruptly)

    def heal(self) -> None:
        """Remove all faults. Connections that have lost bytes are closed; the others go on."""
        self._tampering.heal()  # first: what is held would keep toxiproxy from taking its toxics away
        for name in tuple(self._toxics):
            self.untoxic(name)

    @property
    def healed(self) -> bool:
        """Whether there is no fault: what has struck or was lifted is none any more."""
        return not self._tampering.active and not self._toxics

    @property
    def counts(self) -> Counts:
        """What the tampering proxy has done."""
        return self._tampering.counts

    def _add(self, toxic: Toxic) -> str:
        name = f"{toxic.kind}-{toxic.stream.value}"
        if self._upstream is None:
            raise IllegalStateError(f"{self._label} has no toxics before it is led to a broker")
        if name in self._toxics:
            raise IllegalStateError(f"{self._label} has the toxic {name} already")
        self._toxics[name] = toxic
        self._change(self._toxiproxy.add, toxic, name)
        return name

    def _change(self, change: Callable[[str, *Ts], object], *args: *Ts) -> None:
        try:
            change(self._name, *args)
        except ToxiproxyError as error:
            if error.status:
                raise
            self._renew()

    def _renew(self) -> None:
        """Another of toxiproxy's proxies, with the toxics there are to be."""
        assert self._upstream is not None
        made = self._toxiproxy.create(f"{self._label}-{secrets.token_hex(4)}", upstream=self._upstream)
        for name, toxic in self._toxics.items():
            self._toxiproxy.add(made.name, toxic, name)
        self._name = made.name
        host, _, port = made.listen.rpartition(":")
        self._tampering.lead_to(host, int(port))
        self._tampering.hang_up(abruptly=True)


class ProxiedBrokers(Sequence[BrokerProxy]):
    """The proxies of all brokers, by number, with one toxiproxy for all. Use as a context manager.

    Args:
        brokers: How many.
        cache: Where toxiproxy is kept, once built.
        is_encrypted: Whether clients use TLS; see `TamperingProxy`.

    Raises:
        MissingSoftwareError: On entering: toxiproxy cannot be built.
    """

    def __init__(self, brokers: int, *, cache: Path, is_encrypted: bool = False) -> None:
        self._size = brokers
        self._cache = cache
        self._is_encrypted = is_encrypted
        self._proxies: tuple[BrokerProxy, ...] = ()
        self._stack = ExitStack()

    def __enter__(self) -> ProxiedBrokers:
        with ExitStack() as stack:
            toxiproxy = stack.enter_context(ToxiproxyServer(self._cache)).client
            self._proxies = tuple(
                BrokerProxy(
                    f"broker-{i}",
                    stack.enter_context(TamperingProxy(is_encrypted=self._is_encrypted)),
                    toxiproxy,
                )
                for i in range(self._size)
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def __len__(self) -> int:
        return len(self._proxies)

    @overload
    def __getitem__(self, broker: int) -> BrokerProxy: ...
    @overload
    def __getitem__(self, broker: slice) -> Sequence[BrokerProxy]: ...
    def __getitem__(self, broker: int | slice) -> BrokerProxy | Sequence[BrokerProxy]:
        return self._proxies[broker]

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Where clients connect: what the brokers have to advertise."""
        return tuple(proxy.address for proxy in self._proxies)

    @property
    def bootstrap_servers(self) -> str:
        """The same for a client, as "host:port,host:port"."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    def lead_to(self, servers: Sequence[tuple[str, int]]) -> None:
        """To these brokers, in the order of their numbers: their listeners for clients."""
        for proxy, (host, port) in zip(self._proxies, servers, strict=True):
            proxy.lead_to(host, port)

    def cut_off(self) -> None:
        """Partition all brokers from all clients."""
        for proxy in self._proxies:
            proxy.cut_off()

    def heal(self) -> None:
        """Remove all faults of all brokers."""
        for proxy in self._proxies:
            proxy.heal()

    @property
    def healed(self) -> bool:
        """Whether no broker has a fault."""
        return all(proxy.healed for proxy in self._proxies)
