"""A schema registry in memory that speaks as much of Confluent's REST interface as clients need, for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


class FakeRegistry:
    """Schemas by number and by subject; `asked` has every request as `METHOD /path`."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked.append(f"{method} {path}")
        path = path.partition("?")[0]
        # As a registry does: what is the default, or empty, is not kept.
        body = {name: value for name, value in body.items() if value and (name, value) != ("schemaType", "AVRO")}
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", text]:
                found = self.schemas.get(int(text))
                return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
            case ["subjects", subject, "versions"] if method == "POST":
                return 200, {"id": self.register(subject, body)}
            case ["subjects", subject] if method == "POST":
                for number in self.subjects.get(subject, []):
                    if self.schemas[number] == body:
                        return 200, self.described(subject, number)
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                numbers = self.subjects[subject]
                return 200, self.described(subject, numbers[-1] if version == "latest" else numbers[int(version) - 1])
        return 404, {"error_code": 40401, "message": f"Subject '{path}' not found."}

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        number = next((number for number, known in self.schemas.items() if known == schema), len(self.schemas) + 1)
        self.schemas[number] = schema
        numbers = self.subjects.setdefault(subject, [])
        if number not in numbers:
            numbers.append(number)
        return number

    def described(self, subject: str, number: int) -> dict[str, Any]:
        version = self.subjects[subject].index(number) + 1
        return {"subject": subject, "id": number, "version": version, **self.schemas[number]}


@contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    """The registry, served on a free port."""
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.serve({})

        def do_POST(self) -> None:
            self.serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def serve(self, body: dict[str, Any]) -> None:
            registry.headers.append(dict(self.headers.items()))
            status, answer = registry.answer(self.command, self.path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Tests read `asked` instead."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
