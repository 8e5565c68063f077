"""A schema registry for tests: the part of Confluent's REST interface that serializers and deserializers use."""

from __future__ import annotations

import base64
import json
import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, dict[str, object]]


@dataclass(frozen=True)
class Page:
    """An answer of something that is no registry. `path` begins the paths that it answers."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    path: str = "/"


class SchemaRegistry:
    """Schemas by number and by subject. `status` in place of 200 makes it fail, `fails` how often, if not for ever.
    `page` is answered in place of what it has."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, object]] = []
        self.subjects: dict[str, list[int]] = {}
        self.status = 200
        self.fails: float = float("inf")
        self.asked: list[str] = []
        self.users: set[str] = set()
        self.url = ""
        self.page: Page | None = None

    def answer(self, method: str, path: str, body: dict[str, object]) -> Answer:
        self.asked.append(f"{method} {path.partition('?')[0]}")
        if self.status != 200 and self.fails > 0:
            self.fails -= 1
            return self.status, {"error_code": self.status, "message": "as the test wants it"}
        if found := re.match(r"/schemas/ids/(\d+)", path):
            return self._by_number(int(found[1]))
        if found := re.match(r"/schemas/guids/([^/?]+)", path):
            return self._by_uuid(found[1])
        if found := re.match(r"/subjects/([^/?]+)/versions/(\w+)", path):
            return self._by_version(found[1], found[2])
        if found := re.match(r"/subjects/([^/?]+)", path):
            return self._registered(found[1], body)
        return 404, {"error_code": 404, "message": "no such resource"}

    def _by_number(self, number: int) -> Answer:
        if 1 <= number <= len(self.schemas):
            return 200, self.schemas[number - 1]
        return 404, {"error_code": 40403, "message": f"Schema {number} not found"}

    def uuid_of(self, number: int) -> uuid.UUID:
        """The other name of this schema."""
        return uuid.uuid5(uuid.NAMESPACE_OID, str(self.schemas[number - 1]))

    def _by_uuid(self, text: str) -> Answer:
        for number in range(1, len(self.schemas) + 1):
            if str(self.uuid_of(number)) == text:
                return 200, {**self.schemas[number - 1], "guid": text}
        return 404, {"error_code": 40403, "message": f"Schema {text} not found"}

    def _by_version(self, subject: str, version: str) -> Answer:
        numbers = self.subjects.get(subject, [])
        at = len(numbers) if version in ("latest", "-1") else int(version)
        if not 1 <= at <= len(numbers):
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        return 200, {"subject": subject, "version": at, "id": numbers[at - 1], **self.schemas[numbers[at - 1] - 1]}

    def _registered(self, subject: str, body: dict[str, object]) -> Answer:
        if body not in self.schemas:
            self.schemas.append(body)
        number = self.schemas.index(body) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return 200, {"subject": subject, "version": versions.index(number) + 1, "id": number, **body}


@contextmanager
def running_registry() -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: dict[str, object]) -> None:
            if (login := self.headers.get("Authorization", "")).startswith("Basic "):
                registry.users.add(base64.b64decode(login.removeprefix("Basic ")).decode().partition(":")[0])
            page = registry.page
            if page is None or not self.path.startswith(page.path):
                status, answer = registry.answer(self.command, self.path, body)
                kind = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
                page = Page(json.dumps(answer).encode(), status, kind)
            self.send_response(page.status)
            for name, value in {**page.headers, "Content-Length": str(len(page.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(page.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Tests want no lines."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
