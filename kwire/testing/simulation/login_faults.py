"""Faults of logins, in worlds with secured connections; of the same form as those in `faults`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.protocol.schema import Message, Request
from kwire.testing.simulation.fault_steps import again_and_again
from kwire.testing.simulation.logins import OTHER_PASSWORD, PASSWORD, USER
from kwire.testing.simulation.surroundings import Fault, Injected, Surroundings

if TYPE_CHECKING:
    from kwire.testing.cluster.control import Intent, Rule

STEPS: tuple[type[Request[Message]], ...] = (SaslHandshakeRequest, SaslAuthenticateRequest)


def password_changed(world: Surroundings) -> Injected:
    """No client can log in any more; half of the time all connections are cut as well, so that every client has to."""
    sasl = world.cluster.sasl
    assert sasl is not None
    sasl.set_password(USER, OTHER_PASSWORD)
    is_cut = world.rng.random() < 0.5
    if is_cut:
        world.network.cut(lambda _client, _host: True)
    return Injected(
        "all connections cut" if is_cut else "sessions go on until they end",
        lambda: sasl.set_password(USER, PASSWORD),
    )


def logins_disturbed(world: Surroundings) -> Injected:
    """Steps of logins are answered late, or not at all, or the connection ends over them."""
    step, choice = world.rng.choice(STEPS), world.rng.randrange(3)
    rule, what = _disturb(world.cluster.control.on(step), choice, world.rng.choice((200.0, 2_000.0, 9_000.0)))
    return Injected(f"{step.__name__}: {what}", rule.remove)


def _disturb(steps: Intent[Request[Message]], choice: int, delay_ms: float) -> tuple[Rule, str]:
    if choice == 0:
        return steps.drop(handled=True), "not answered"
    if choice == 1:
        return steps.cut(handled=True), "connections cut"
    return steps.delay(delay_ms), f"answered after {delay_ms:.0f} ms"


def sessions_end_early(world: Surroundings) -> Injected:
    """The broker refuses renewals for short times. Connections end with their sessions, and clients connect again."""
    sasl = world.cluster.sasl
    assert sasl is not None

    def change() -> None:
        is_right = sasl.password_of(USER) == PASSWORD
        sasl.set_password(USER, OTHER_PASSWORD if is_right else PASSWORD)

    stop = again_and_again(world, change)

    def heal() -> None:
        stop()
        sasl.set_password(USER, PASSWORD)

    return Injected("every 0.2 to 2 s", heal)


LOGIN_FAULTS: Mapping[str, Fault] = {
    fault.__name__.replace("_", "-"): fault for fault in (password_changed, logins_disturbed, sessions_end_early)
}
