"""The registry of checks. A check is a function with the decorator `@check(SomeRequest)`; this module finds all of
them.

    @check(HeartbeatRequest, versions="3+", needs=(JoinGroupRequest,))
    def a_stranger_is_refused(broker: Broker, version: int) -> None: ...

A check runs once for every version of its API that the broker and kwire share, within `versions`; with `once`, only for
the highest. Reports show its name, without underscores, and the first line of its docstring.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, TypeAlias

from kwire.protocol.schema import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kwire.conformance.broker import JudgedBroker
    from kwire.conformance.offer import BrokerOffer, Feature
    from kwire.protocol.registry import BrokerVersions
    from kwire.protocol.schema import Message, Request

    Run: TypeAlias = Callable[[JudgedBroker, int], None]

CHECKS = "kwire.conformance.checks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check of one behaviour of a broker, for some versions of one API."""

    area: str
    name: str
    request: type[Request[Message]]
    versions: Versions
    once: bool
    needs: tuple[type[Request[Message]], ...]
    feature: Feature | None
    run: Run

    @property
    def api(self) -> str:
        """The API's name, such as "Fetch"."""
        return self.request.__name__.removesuffix("Request")

    def cases(self, offer: BrokerOffer) -> list[Case]:
        """The check in each version; a case that the broker does not offer has the reason for not being run."""
        declared = self.declared_versions()
        reasons = {version: self._why_not(offer, version) for version in declared}
        if self.once:
            runnable = [version for version in declared if not reasons[version]]
            declared = runnable[-1:] or declared[-1:]
        return [Case(self, version, reasons[version]) for version in declared]

    def declared_versions(self) -> list[int]:
        """The versions that kwire has and that the check is meant for."""
        return [version for version in self.request.versions if version in self.versions]

    def _why_not(self, offer: BrokerOffer, version: int) -> str:
        """The reason why the check cannot run in this version; empty if it can."""
        broker = offer.versions
        offered = broker.offered.get(self.request.api_key)
        if offered is None:
            return "the broker does not offer it"
        if not broker.supports(self.request, version):
            return f"the broker offers versions {offered}"
        lacking = [needed for needed in self.needs if not _is_offered(broker, needed)]
        if lacking:
            names = ", ".join(needed.__name__.removesuffix("Request") for needed in lacking)
            return f"a check needs {names}, which the broker does not offer"
        return offer.lacks(self.feature)


@dataclass(frozen=True, slots=True)
class Case:
    """A check in one version; `reason` says why it cannot run, and is empty if it can."""

    check: Check
    version: int
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.check.api} v{self.version}: {self.check.name}"


_registered: dict[str, Check] = {}


def check(
    request: type[Request[Message]],
    *,
    versions: str = "0+",
    once: bool = False,
    needs: Sequence[type[Request[Message]]] = (),
    feature: Feature | None = None,
) -> Callable[[Run], Run]:
    """Mark a function as a check.

    Args:
        request: The API that the check is about.
        versions: The versions that the check is meant for, in Kafka's notation.
        once: Whether only the highest version is checked, because the behaviour does not depend on the version.
        needs: Other APIs that the check uses.
        feature: A feature that the cluster must have enabled: brokers also list APIs of disabled features.
    """

    def register(function: Run) -> Run:
        area = function.__module__.rpartition(".")[2]
        _registered[f"{area}.{function.__name__}"] = Check(
            area=area,
            name=function.__name__.strip("_").replace("_", " "),
            request=request,
            versions=Versions.parse(versions),
            once=once,
            needs=tuple(needs),
            feature=feature,
            run=function,
        )
        return function

    return register


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check, ordered by API key, then by position in its module."""
    for info in iter_modules(import_module(CHECKS).__path__):
        import_module(f"{CHECKS}.{info.name}")
    return tuple(sorted(_registered.values(), key=lambda found: (found.request.api_key, found.area)))


def _is_offered(broker: BrokerVersions, request: type[Request[Message]]) -> bool:
    return any(broker.supports(request, version) for version in request.versions)
