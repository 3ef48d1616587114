"""HTTP in: records that are posted, kept on disk until Spark has taken them.

Promises: an answer 200 means that the records of the body are in a file that has been synced and renamed into the
spool, all of one body in one file, so that a record that was answered for is neither lost by a crash nor split. A body
that was not answered may be there too: who sends it again may have it twice, unless both times have the same
`Idempotency-Key`. One file holds what arrived while the one before it was synced, so the disk is synced as often as it
can be and no more.

A file with keys is on the disk before its keys are noted (`idempotency`), and published after that: a run that is cut
short between the two leaves the last step to the next start.

Bodies: `application/json` is one record, or an array of them; anything else is text of one record a line. Called by
`runner`, which has Spark read the spool as files of text and remove each when its micro-batch is through.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

from ottla.pipelines.connect.idempotency import KEY, KeyJournal, Taken, digest_of
from ottla.pipelines.durable import sync
from ottla.pipelines.errors import PipelineError

log = logging.getLogger(__name__)

READ_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 30.0
_SPACE = " \t\r\n"
KEYS_MAX = 100_000
"""How many idempotency keys are remembered."""
PENDING_BYTES_MAX = 64 << 20
"""What may wait for the disk before senders are told to come back later."""


@dataclass(slots=True)
class _Body:
    lines: Sequence[bytes]
    size: int
    settled: threading.Event = field(default_factory=threading.Event)
    error: OSError | None = None
    key: str | None = None
    digest: str = ""


class Refusal(Exception):
    """A request that is not taken, with the status it is answered with."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        self.status = status
        super().__init__(message)


class Spool:
    """A directory of files, each with the records of one sync."""

    def __init__(self, directory: Path, *, keys_max: int = KEYS_MAX) -> None:
        self.directory = directory
        self._waiting: list[_Body] = []
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._hidden = directory / "_new"  # Spark passes over names that begin so
        self._hidden.mkdir(parents=True, exist_ok=True)
        self._keys = KeyJournal(directory / "_keys", keys_max)
        self._in_flight: dict[str, _Body] = {}
        """By its key, a body that waits for the disk."""
        self._unpublished: list[str] = []
        """Files whose keys are noted, and which could not be published yet."""
        for path in sorted(self._hidden.iterdir()):  # of a run that was killed
            if path.name in self._keys.files:
                self._publish(path.name)
            else:
                path.unlink()  # it may be torn, and nobody had an answer for it
        self._writer = threading.Thread(target=self._write, name="http-spool", daemon=True)
        self._writer.start()

    def put(self, lines: Sequence[bytes], key: str | None = None) -> None:
        """Return when the records are on the disk; those of a body that was taken under its key before are."""
        body = _Body(lines, sum(map(len, lines)), key=key, digest="" if key is None else digest_of(lines))
        with self._changed:
            if self._is_closed:
                raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the pipeline stops")
            if key is not None:
                taken, earlier = self._keys.get(key), self._in_flight.get(key)
                if any(one is not None and one.digest != body.digest for one in (taken, earlier)):
                    raise Refusal(
                        HTTPStatus.UNPROCESSABLE_ENTITY, "this Idempotency-Key was used for another body: use a new one"
                    )
                if taken is not None:
                    return
                body = earlier or body
            if body.key is None or body.key not in self._in_flight:
                self._accept(body)
        if not body.settled.wait(ANSWER_TIMEOUT_S):
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the disk did not answer in time")
        if body.error is not None:
            raise Refusal(HTTPStatus.INSUFFICIENT_STORAGE, f"the disk refuses: {body.error.strerror}")

    def _accept(self, body: _Body) -> None:
        if self._waiting_bytes + body.size > PENDING_BYTES_MAX:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the disk is behind: try again later")
        if body.key is not None:
            self._in_flight[body.key] = body
        self._waiting.append(body)
        self._waiting_bytes += body.size
        self._changed.notify()

    def close(self) -> None:
        """What has been taken is written; nothing more is taken."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._writer.join(ANSWER_TIMEOUT_S)

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_closed:
                    self._changed.wait()
                bodies, self._waiting, self._waiting_bytes = self._waiting, [], 0
                if not bodies:
                    return
            error = None
            try:
                self._store(bodies)
            except OSError as failed:
                log.error("[HTTP in] %s cannot be written: %s", self.directory, failed)
                error = failed
            with self._changed:
                for body in bodies:
                    if body.key is not None:
                        del self._in_flight[body.key]
            for body in bodies:
                body.error = error
                body.settled.set()

    def _store(self, bodies: Sequence[_Body]) -> None:
        # The name sorts by time and is never used twice, not by a later run either.
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.txt"
        hidden = self._hidden / name
        while self._unpublished:
            self._publish(self._unpublished[0])
            self._unpublished.pop(0)
        with open(hidden, "wb") as file:
            for body in bodies:
                file.writelines(line + b"\n" for line in body.lines)
            file.flush()
            os.fsync(file.fileno())
        keys = {body.key: Taken(body.digest, len(body.lines)) for body in bodies if body.key is not None}
        if keys:
            sync(self._hidden)
            self._keys.note(name, keys)
            self._unpublished.append(name)
        self._publish(name)
        self._unpublished = []

    def _publish(self, name: str) -> None:
        if (self._hidden / name).exists():
            os.replace(self._hidden / name, self.directory / name)
        sync(self.directory)


class HttpIn:
    """The server. `with HttpIn("127.0.0.1:8080", "/orders", spool) as server: ... server.address`"""

    def __init__(self, listen: str, path: str, spool: Spool, *, token: str | None, bytes_max: int) -> None:
        host, _, port = listen.rpartition(":")
        if not port.isdigit():
            raise PipelineError(f"listen takes host:port, and not {listen!r}")
        handler = type("Handler", (_Handler,), {"at": path, "spool": spool, "token": token, "bytes_max": bytes_max})
        try:
            self._server = _Server((host or "127.0.0.1", int(port)), handler)
        except OSError as error:
            raise PipelineError(f"cannot listen on {listen}: {error.strerror}") from None
        self._spool = spool
        self._thread = threading.Thread(target=self._server.serve_forever, name="http-in", daemon=True)

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def __enter__(self) -> HttpIn:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._spool.close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # five, the default, turns senders away when many come at once


class _Handler(BaseHTTPRequestHandler):
    at: str
    spool: Spool
    token: str | None
    bytes_max: int
    timeout = READ_TIMEOUT_S
    protocol_version = "HTTP/1.1"
    server_version = "ottla"
    sys_version = ""

    def do_POST(self) -> None:
        try:
            lines = records_of(self.headers.get_content_type(), self._body())
            if lines:
                self.spool.put(lines, self._key())
        except Refusal as refusal:
            # The body may not have been read to its end, so the connection is of no more use.
            self.close_connection = True
            self._answer(refusal.status, {"error": str(refusal)})
        else:
            self._answer(HTTPStatus.OK, {"records": len(lines)})

    def _key(self) -> str | None:
        key = self.headers.get("Idempotency-Key")
        if key is None:
            return None
        # The header's draft standard has it in quotes, and nearly everybody sends it without.
        key = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
        if not KEY.fullmatch(key):
            raise Refusal(
                HTTPStatus.BAD_REQUEST,
                "an Idempotency-Key is 1 to 255 letters, digits and signs of ASCII without spaces",
            )
        return key

    def _body(self) -> bytes:
        if self.path.partition("?")[0] != self.at:
            raise Refusal(HTTPStatus.NOT_FOUND, f"records are posted to {self.at}")
        said = self.headers.get("Authorization", "")
        if self.token is not None and not hmac.compare_digest(said.encode(), f"Bearer {self.token}".encode()):
            raise Refusal(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "a Content-Length is needed")
        if int(length) > self.bytes_max:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {self.bytes_max} bytes")
        body = self.rfile.read(int(length))
        if len(body) != int(length):
            raise Refusal(HTTPStatus.BAD_REQUEST, "the body ended before its length")
        return body

    def _answer(self, status: HTTPStatus, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        log.debug("[HTTP in] " + format, *args)


def records_of(content_type: str, body: bytes) -> list[bytes]:
    """The records of a body, each on one line."""
    if content_type != "application/json":
        return [line for line in body.splitlines() if line.strip()]
    try:
        text = body.decode()
        json.loads(text)
    except ValueError as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from None
    # The text is kept as it was sent, for a number read and written again may have lost digits. Line breaks are only
    # ever between the parts of a JSON text, where a space says the same.
    records = _elements(text) if text.lstrip(_SPACE).startswith("[") else [text]
    return [record.strip(_SPACE).replace("\r", " ").replace("\n", " ").encode() for record in records]


def _elements(text: str) -> list[str]:
    """The texts of the elements of an array that is known to be one."""
    decoder = json.JSONDecoder()
    found: list[str] = []
    index = text.index("[") + 1
    while True:
        while text[index] in _SPACE or text[index] == ",":
            index += 1
        if text[index] == "]":
            return found
        _, end = decoder.raw_decode(text, index)
        found.append(text[index:end])
        index = end
