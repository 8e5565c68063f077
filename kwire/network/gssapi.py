"""GSSAPI: Kerberos tickets (RFC 4752), by the system's library and the package `gssapi`, which `kwire[gssapi]` brings.

The library asks the key distribution center for tickets, so this is not in `kwire.protocol`, and may take a while.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, TypeVar

from kwire.config.login import Login
from kwire.errors import ConfigError, DisconnectError, KafkaError, SaslAuthenticationError
from kwire.protocol.sasl.exchange import SteppedExchange, Steps, shown

if TYPE_CHECKING:
    import gssapi

MECHANISM = "GSSAPI"
NO_LAYER = 1
"""The bit for a connection that goes on in the clear, or under TLS: Kafka has no other (RFC 4752, section 3.3)."""

OFFER_BYTES = 4
"""The broker's offer: one byte for the layers, three for the size that messages of a layer may have."""

# Parts of what MIT's library says: its numbers are others in each process.
_MAY_PASS = ("Cannot contact any KDC", "Request is a replay", "Ticket not yet valid")
_ADVICE = {
    "expired": "get a new ticket with kinit, or name a keytab in sasl_jaas_config, which gets new ones by itself",
    "credentials": "get a ticket with kinit, or name principal and keyTab in sasl_jaas_config",
    "cache collection": "get a ticket of that principal with kinit, or name its keyTab in sasl_jaas_config",
    "not found in Kerberos database": "the service has to be registered under the name that the broker is reached by: "
    "compare it with advertised.listeners, and sasl_kerberos_service_name with the first part of that principal",
    "Clock skew": "set the clocks of this machine, the broker and the key distribution center",
    "Preauthentication failed": "the keytab is older than the principal's key; export it anew",
}

_NUMBERS = re.compile(r".*(Major|Minor) \(\d+\): ")  # what stands in front of the last reason says nothing

T = TypeVar("T")


class GssapiExchange(SteppedExchange):
    """An exchange of tickets. The broker proves who it is, and nothing is encrypted by it.

    Args:
        login: Principal and keytab, or neither: then the tickets of this user are used, as kinit got them.
        host: The name of the broker: Kerberos knows brokers by names, not by addresses.

    Raises:
        ConfigError: the package or the system's library is missing.
    """

    does_io: ClassVar[bool] = True

    def __init__(self, login: Login, host: str) -> None:
        super().__init__(MECHANISM, _steps(load_library(), login, host))


def load_library() -> ModuleType:
    """The package `gssapi`, which is there only if somebody wants it.

    Raises:
        ConfigError: it is not, or finds no library of Kerberos.
    """
    try:
        return import_module("gssapi")
    except (ImportError, OSError) as error:
        raise ConfigError(
            f"sasl_mechanism=GSSAPI needs the package gssapi: pip install 'kwire[gssapi]' ({error}); that compiles it, "
            "and on Debian and Ubuntu wants gcc and libkrb5-dev"
        ) from None


def _steps(library: ModuleType, login: Login, host: str) -> Steps:
    service = f"{login.service_name}@{host}"

    def attempt(call: Callable[..., T], *arguments: object) -> T:
        try:
            return call(*arguments)
        except library.exceptions.GSSError as error:
            raise _told(str(error), login, host) from None

    context = attempt(_context, library, login, service)
    token = attempt(context.step)
    while True:
        challenge = yield token or b""
        if context.complete:
            break  # this is not a token any more, but what layers the broker offers
        token = attempt(context.step, challenge)
    if not context.actual_flags & library.RequirementFlag.mutual_authentication:
        raise SaslAuthenticationError(f"{MECHANISM}: the broker does not prove that it is {service}")
    offer = attempt(context.unwrap, challenge).message
    if len(offer) != OFFER_BYTES or not offer[0] & NO_LAYER:
        raise SaslAuthenticationError(
            f"{MECHANISM}: the broker wants each message signed or encrypted by Kerberos, which Kafka does not do"
        )
    # No layer, no messages in it, and no other principal is acted for.
    choice = bytes([NO_LAYER, 0, 0, 0]) + str(context.initiator_name).encode()
    yield attempt(context.wrap, choice, False).message


def _context(library: ModuleType, login: Login, service: str) -> gssapi.SecurityContext:
    context: gssapi.SecurityContext = library.SecurityContext(
        name=library.Name(service, library.NameType.hostbased_service),
        creds=_credentials(library, login),
        mech=library.MechType.kerberos,
        flags=library.RequirementFlag.mutual_authentication | library.RequirementFlag.integrity,
        usage="initiate",
    )
    return context


def _credentials(library: ModuleType, login: Login) -> gssapi.Credentials:
    """The tickets to log in with. Those of a keytab are in this process's memory, where all its connections share them;
    the library renews them."""
    store = None
    if login.keytab is not None:
        owner = sha256(f"{login.principal}\n{login.keytab}".encode()).hexdigest()[:16]
        store = {"client_keytab": login.keytab, "ccache": f"MEMORY:kwire-{owner}"}
    name = library.Name(login.principal, library.NameType.kerberos_principal) if login.principal else None
    credentials: gssapi.Credentials = library.Credentials(name=name, usage="initiate", store=store)
    return credentials


def _told(said: str, login: Login, host: str) -> KafkaError:
    """What the library says, and what to do. What may be gone the next time is retriable, as in Java's client."""
    said = shown(_NUMBERS.sub("", " ".join(said.split())))
    text = f"{MECHANISM}: login at {login.service_name}/{host} fails: {said}"
    if any(part in said for part in _MAY_PASS):
        return DisconnectError(text)
    advice = next((advice for part, advice in _ADVICE.items() if part in said), None)
    if login.keytab is not None and "credentials" in said:
        advice = f"keyTab={login.keytab} has to be readable and have a key of {login.principal or 'a user'} (klist -k)"
    elif _is_address(host):
        advice = (
            f"{host} is an address, and Kerberos knows brokers by names: use names in bootstrap_servers, and in the "
            "brokers' advertised.listeners"
        )
    return SaslAuthenticationError(f"{text}; {advice}" if advice else text)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
