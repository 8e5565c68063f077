"""A login server on loopback, over real TLS, which answers what a test tells it; and logins that ask it."""

from __future__ import annotations

import json
import ssl
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol, TypeAlias
from urllib.parse import parse_qs

import pytest
import trio
import trio.testing
import trustme

from kwire.clock import TimeSource, install
from kwire.config import ConsumerConfig, OAuthToken, login_of
from kwire.errors import KafkaError
from kwire.network.login.failures import TokenRequestError
from kwire.network.login.token_login import TokenLogin

CLIENT_ID = "kwire-client"
CLIENT_SECRET = "hush, nobody may read this"
# Where virtual time begins, on the wall clock: 2027-01-15.
VIRTUAL_BEGIN_MS = 1_800_000_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the server got it."""

    headers: dict[str, str]
    form: dict[str, str]


Respond: TypeAlias = "Callable[[Handler], object]"


class Handler(BaseHTTPRequestHandler):
    """Takes down what was asked, and answers what the test says."""

    server: ScriptedServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body, strict_parsing=True).items()}
        with self.server.lock:
            self.server.asked.append(Asked({name.lower(): value for name, value in self.headers.items()}, form))
            respond = self.server.script.popleft() if len(self.server.script) > 1 else self.server.script[0]
        respond(self)

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is http.server's
        return


class ScriptedServer(ThreadingHTTPServer):
    """Answers each request by the next step of its script, and by the last one from then on."""

    daemon_threads = True

    def __init__(self, certificate: trustme.LeafCert, authority_pem: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.authority_pem = authority_pem
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.asked: list[Asked] = []
        self.script: deque[Respond] = deque()

    @property
    def url(self) -> str:
        return f"https://localhost:{self.server_port}/oauth2/token?realm=kafka"

    def answers(self, *steps: Respond) -> None:
        self.script = deque(steps)

    def handle_error(self, request: object, client_address: object) -> None:
        return  # clients hang up on purpose


class Says(Protocol):
    """Makes a step of the script."""

    def __call__(self, status: int, body: object, **headers: str) -> Respond: ...


@pytest.fixture
def says() -> Says:
    def make(status: int, body: object, **headers: str) -> Respond:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return lambda handler: handler.reply(status, data, **headers)

    return make


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


class MakeServer(Protocol):
    """Starts a login server with a certificate for that name."""

    def __call__(self, name: str) -> ScriptedServer: ...


@pytest.fixture
def make_server(authority: trustme.CA) -> Iterator[MakeServer]:
    running: list[tuple[ScriptedServer, threading.Thread]] = []

    def make(name: str) -> ScriptedServer:
        server = ScriptedServer(authority.issue_cert(name), authority.cert_pem.bytes().decode())
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        running.append((server, thread))
        return server

    yield make
    for server, thread in running:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def login_server(make_server: MakeServer) -> ScriptedServer:
    return make_server("localhost")


class MakeConfig(Protocol):
    def __call__(self, **settings: object) -> ConsumerConfig: ...


@pytest.fixture
def make_config() -> MakeConfig:
    """Settings for OAUTHBEARER."""

    def make(**settings: object) -> ConsumerConfig:
        base = {
            "bootstrap_servers": "broker:9093",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
        }
        return ConsumerConfig.of({**base, **settings})

    return make


@pytest.fixture
def server_config(login_server: ScriptedServer, make_config: MakeConfig) -> MakeConfig:
    """Settings that name the login server, with back-off so short that tests do not wait."""

    def make(**settings: object) -> ConsumerConfig:
        base = {
            "sasl_oauthbearer_token_endpoint_url": login_server.url,
            "sasl_oauthbearer_client_credentials_client_id": CLIENT_ID,
            "sasl_oauthbearer_client_credentials_client_secret": CLIENT_SECRET,
            "ssl_truststore_certificates": login_server.authority_pem,
            "sasl_login_retry_backoff_ms": 1,
            "sasl_login_retry_backoff_max_ms": 40,
        }
        return make_config(**{**base, **settings})

    return make


@pytest.fixture
def first_token() -> Callable[[ConsumerConfig], OAuthToken]:
    """What a client that has just started gets."""

    def get(config: ConsumerConfig) -> OAuthToken:
        async def run() -> OAuthToken | KafkaError:
            login = TokenLogin(config, login_of(config))
            got: OAuthToken | KafkaError
            async with trio.open_nursery() as nursery:
                nursery.start_soon(login.run)
                try:
                    with trio.fail_after(30):
                        got = await login.token()
                except KafkaError as error:
                    got = error
                nursery.cancel_scope.cancel()
            return got

        got = trio.run(run)
        if isinstance(got, KafkaError):
            raise got
        return got

    return get


Answer: TypeAlias = "OAuthToken | TokenRequestError"


@dataclass(slots=True)
class VirtualLogin:
    """A login whose questions a test answers, in virtual time.

    Attributes:
        answers: what is answered to the next question: a token, or a failure that is raised.
        asked_at_s: when it was asked, in seconds since the test began.
    """

    config: ConsumerConfig
    answers: Callable[[], Answer]
    takes_s: float = 0.0
    asked_at_s: list[float] = field(default_factory=list)
    login: TokenLogin = field(init=False)

    def __post_init__(self) -> None:
        self.login = TokenLogin(self.config, login_of(self.config), ask=self._ask)

    async def _ask(self) -> OAuthToken:
        self.asked_at_s.append(trio.current_time())
        await trio.sleep(self.takes_s)
        answer = self.answers()
        if isinstance(answer, OAuthToken):
            return answer
        raise answer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.login.run)
            yield
            nursery.cancel_scope.cancel()


def living(life_s: float, name: str = "token") -> OAuthToken:
    """A token whose life begins now."""
    return OAuthToken(name, VIRTUAL_BEGIN_MS + (trio.current_time() + life_s) * 1000.0)


@pytest.fixture(name="living")
def living_fixture() -> Callable[..., OAuthToken]:
    return living


class RunVirtually(Protocol):
    def __call__(self, test: Callable[[], Awaitable[None]]) -> None: ...


@pytest.fixture
def run_virtually() -> RunVirtually:
    """Runs a test with kwire's clock on trio's virtual one, and chance at its middle."""

    def run(test: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            with trio.fail_after(1_000_000):
                await test()

        source = TimeSource(
            monotonic_seconds=trio.current_time,
            wall_clock_ns=lambda: VIRTUAL_BEGIN_MS * 1_000_000 + int(trio.current_time() * 1e9),
            chance=lambda: 0.5,
        )
        before = install(source)
        try:
            trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0))
        finally:
            install(before)

    return run


class MakeLogin(Protocol):
    def __call__(self, answers: Callable[[], Answer], *, takes_s: float = 0.0, **settings: object) -> VirtualLogin: ...


@pytest.fixture
def make_login(make_config: MakeConfig) -> MakeLogin:
    def make(answers: Callable[[], Answer], *, takes_s: float = 0.0, **settings: object) -> VirtualLogin:
        config = make_config(sasl_oauth_token_provider=lambda: "not asked", **settings)
        return VirtualLogin(config, answers, takes_s)

    return make
