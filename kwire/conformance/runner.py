"""The runner: it runs the checks against a broker, several at a time, and collects the results.

Checks share only the broker, and mostly wait, so they run on a pool of threads. The order of the report does not depend
on which check ends first. Called by the command line and the plugin.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kwire.conformance.broker import JudgedBroker
from kwire.conformance.cleanup import clean_up
from kwire.conformance.client import BrokerAddress
from kwire.conformance.expectations import NonconformanceError
from kwire.conformance.registry import all_checks
from kwire.conformance.report import CaseStatus, Report, Result
from kwire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kwire.conformance.access import Access
    from kwire.conformance.registry import Case

DEFAULT_TIMEOUT_S = 10.0
DEFAULT_JOBS = 32
"""A broker with Kafka's defaults makes each new classic group wait for 3 s, so that many have to wait at a time."""


class UnreachableBrokerError(KafkaError):
    """There is no broker to judge: nothing listens at the address, or it does not answer as a broker."""


class BrokenBrokerError(KafkaError):
    """There is a broker, but its first answers are not as Kafka's, so no check can run: it does not conform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run.

    `only` has shell patterns: a case runs if its "Api", its "area" or its whole name ("Fetch v12: ...") matches one of
    them; without patterns all cases run. `jobs` is how many cases run at a time. `access` is TLS and the login, if any.
    """

    timeout_s: float = DEFAULT_TIMEOUT_S
    jobs: int = DEFAULT_JOBS
    only: tuple[str, ...] = ()
    access: Access | None = None


def run(bootstrap: str, options: RunOptions | None = None, on_result: Callable[[Result], None] | None = None) -> Report:
    """Judge the broker at `bootstrap`, a HOST:PORT.

    Args:
        bootstrap: The address of the broker.
        options: The options.
        on_result: Called with each result as it comes, in no particular order, from several threads.

    Raises:
        InvalidArgumentError: `bootstrap` is no address.
        UnreachableBrokerError: There is no broker to judge.
        BrokenBrokerError: Its first answers are not as Kafka's.
    """
    options = options or RunOptions()
    started_s = time.monotonic()
    broker = connect(bootstrap, options.timeout_s, options.access)

    def judge(case: Case) -> Result:
        result = run_case(broker, case)
        if on_result is not None:
            on_result(result)
        return result

    try:
        with ThreadPoolExecutor(options.jobs, thread_name_prefix="conformance") as pool, _ended_early(pool, broker):
            results = tuple(pool.map(judge, select(broker, options.only)))
    finally:
        leftovers = clean_up(broker)
    return Report(
        bootstrap=bootstrap,
        prefix=broker.prefix,
        seconds=time.monotonic() - started_s,
        results=results,
        leftovers=tuple(leftovers),
    )


@contextmanager
def _ended_early(pool: ThreadPoolExecutor, broker: JudgedBroker) -> Iterator[None]:
    """A context that Ctrl-C leaves at once: the cases under way would wait for a silent broker, each for a timeout."""
    try:
        yield
    except BaseException:
        with broker.cut_off():
            pool.shutdown(cancel_futures=True)
        raise


def connect(bootstrap: str, timeout_s: float = DEFAULT_TIMEOUT_S, access: Access | None = None) -> JudgedBroker:
    """Connect to the broker at `bootstrap`. Raises: as `run`."""
    address = BrokerAddress.parse(bootstrap)
    try:
        return JudgedBroker(address, timeout_s, access)
    except NonconformanceError as error:
        raise BrokenBrokerError(f"the broker at {address} does not conform: {error}") from error
    except KafkaError as error:
        raise UnreachableBrokerError(f"no Kafka broker to judge at {address}: {error}") from error


def select(broker: JudgedBroker, only: Sequence[str] = ()) -> list[Case]:
    """The cases for this broker that match one of the patterns; all, without patterns."""
    cases = [case for check in all_checks() for case in check.cases(broker.offer)]
    return [case for case in cases if not only or any(_matches(case, pattern) for pattern in only)]


def _matches(case: Case, pattern: str) -> bool:
    names = (case.check.api, case.check.area, case.check.name, str(case))
    return any(fnmatchcase(name.lower(), pattern.lower()) for name in names)


def run_case(broker: JudgedBroker, case: Case) -> Result:
    """Run one case. Returns its result."""
    started_s = time.monotonic()
    status, reason = CaseStatus.PASSED, ""
    if case.reason:
        status, reason = CaseStatus.NOT_OFFERED, case.reason
    else:
        try:
            case.check.run(broker, case.version)
        except NonconformanceError as problem:
            status, reason = CaseStatus.FAILED, str(problem)
        except Exception as error:  # noqa: BLE001  an answer that no check reckons with must not end all others
            status, reason = CaseStatus.FAILED, f"{type(error).__name__}: {error}"
    return Result(
        api=case.check.api,
        api_key=case.check.request.api_key,
        version=case.version,
        area=case.check.area,
        check=case.check.name,
        status=status,
        reason=reason,
        seconds=time.monotonic() - started_s,
    )
