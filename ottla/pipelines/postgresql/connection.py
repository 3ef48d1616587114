"""A connection to PostgreSQL: TLS, authentication, simple queries, COPY out, and COPY BOTH for replication.

Promises: nothing waits without an end: connecting takes at most `CONNECT_S`, and whoever waits for an answer is asked
every `LOOK_S` whether it is still wanted. `Unavailable` is for errors that another try may not meet; everything else
that the server refuses is `Refused`, with its SQLSTATE. Called by `catalog` and `ottla.pipelines.connect.capture`.
"""

from __future__ import annotations

import base64
import hashlib
import os
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.postgresql import messages
from ottla.pipelines.postgresql.messages import Frames, ProtocolError, Reader, error_fields
from ottla.pipelines.postgresql.scram import MECHANISM, AuthenticationError, ScramClient

CONNECT_S = 15.0
LOOK_S = 0.5
SEND_S = 60.0
"""How long a server may take none of what it is sent."""
RECEIVE_BYTES = 1 << 18
SSL_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
SETTINGS = {
    "client_encoding": "UTF8",
    # The forms that `types` reads, whatever the database and the user have set.
    "DateStyle": "ISO, YMD",
    "TimeZone": "UTC",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "3",
}
_TRANSIENT = ("08", "53", "57P", "58")
"""Classes of SQLSTATE: connection, resources, the operator's intervention, the system."""
_SLOT_IN_USE = "55006"


class PostgresqlError(PipelineError):
    """PostgreSQL cannot be reached, or refuses something."""


class Unavailable(PostgresqlError):
    """Another try may go better."""


class Refused(PostgresqlError):
    """The server does not do what it was asked."""

    def __init__(self, message: str, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class Interrupted(PostgresqlError):
    """Nobody wants the answer any more."""


@dataclass(frozen=True, slots=True)
class Address:
    """Which database, and who connects to it how."""

    host: str
    port: int
    database: str
    user: str
    password: str | None = field(default=None, repr=False)
    ssl_mode: str = "prefer"
    ssl_root_cert: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None

    def __str__(self) -> str:
        return f"postgresql://{self.host}:{self.port}/{self.database}"


def _never() -> bool:
    return False


class Connection:
    """One connection, used by one thread."""

    def __init__(
        self, address: Address, *, replication: bool = False, is_interrupted: Callable[[], bool] = _never
    ) -> None:
        self._address = address
        self._is_interrupted = is_interrupted
        self._frames = Frames()
        self.parameters: dict[str, str] = {}
        """What the server says of itself: `server_version` and others."""
        try:
            self._socket = _connected(address)
        except TimeoutError:
            raise Unavailable(f"{address} does not answer within {CONNECT_S:.0f} s") from None
        except ssl.SSLError as error:
            raise PostgresqlError(f"{address}: TLS fails: {error}") from None
        except OSError as error:
            raise Unavailable(f"{address} cannot be reached: {error.strerror or error}") from None
        try:
            self._start(replication)
        except BaseException:
            self._socket.close()
            raise
        self._socket.settimeout(SEND_S)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        with suppress(OSError):  # it has ended already, which is all that was wanted
            self._socket.sendall(messages.TERMINATE)
        self._socket.close()

    # Queries

    def rows(self, sql: str) -> list[list[str | None]]:
        """The rows of the last statement of a simple query, as text."""
        self._send(messages.query(sql))
        found: list[list[str | None]] = []
        refused: PostgresqlError | None = None
        while True:
            kind, body = self._next()
            match kind:
                case b"T":
                    messages.row_description(body)
                    found = []
                case b"D":
                    found.append(messages.data_row(body))
                case b"E":
                    refused = self._refused(body)
                case b"Z":
                    if refused is not None:
                        raise refused
                    return found
                case b"C" | b"I":
                    pass
                case _:
                    raise ProtocolError(f"a query is answered by a message of type {kind!r}")

    def copied_out(self, sql: str) -> Iterator[bytes]:
        """The rows of `COPY ... TO STDOUT`, each as it is sent: a line of PostgreSQL's text format."""
        self._send(messages.query(sql))
        refused: PostgresqlError | None = None
        while True:
            kind, body = self._next()
            match kind:
                case b"d":
                    yield body
                case b"E":
                    refused = self._refused(body)
                case b"Z":
                    if refused is not None:
                        raise refused
                    return
                case b"H" | b"c" | b"C":
                    pass
                case _:
                    raise ProtocolError(f"COPY TO is answered by a message of type {kind!r}")

    # Replication

    def start_replication(self, slot: str, lsn: str, options: Mapping[str, str]) -> None:
        """From here on `received` and `send_status` are what the connection is for."""
        told = ", ".join(f"{name} {literal(value)}" for name, value in options.items())
        self._send(messages.query(f"START_REPLICATION SLOT {identifier(slot)} LOGICAL {lsn} ({told})"))
        while True:
            kind, body = self._next()
            if kind == b"W":
                return
            if kind == b"E":
                raise self._refused(body)
            raise ProtocolError(f"START_REPLICATION is answered by a message of type {kind!r}")

    def received(self, timeout_s: float) -> Iterator[bytes]:
        """What CopyData messages have: those that are here, or else the first that come within a time."""
        message = self._frames.next()
        if message is None and self._wait(timeout_s):
            self._feed()
            message = self._frames.next()
        while message is not None:
            kind, body = message
            match kind:
                case b"d":
                    yield body
                case b"E":
                    raise self._refused(body)
                case b"c" | b"C" | b"Z":
                    raise Unavailable(f"{self._address} has ended the replication")
                case _ if not self._noted(kind, body):
                    raise ProtocolError(f"replication is answered by a message of type {kind!r}")
            message = self._frames.next()

    def send_status(self, data: bytes) -> None:
        self._send(messages.copy_data(data))

    # Inside

    def _start(self, replication: bool) -> None:
        address = self._address
        told = {"user": address.user, "database": address.database, "application_name": "ottla", **SETTINGS}
        if replication:
            told["replication"] = "database"
        self._send(messages.startup(told))
        scram: ScramClient | None = None
        deadline = time.monotonic() + CONNECT_S
        while True:
            kind, body = self._next(deadline)
            if kind == b"E":
                raise self._refused(body)
            if kind == b"Z":
                return
            if kind == b"K":
                continue
            if kind == b"v":
                raise PostgresqlError(f"{address} does not speak version 3.0 of the protocol")
            if kind != b"R":
                raise ProtocolError(f"the server begins with a message of type {kind!r}")
            scram = self._authenticate(Reader(body, "an authentication message"), scram)

    def _authenticate(self, reader: Reader, scram: ScramClient | None) -> ScramClient | None:
        match reader.int32():
            case 0:
                pass
            case 3:
                self._send(messages.password(self._password()))
            case 5:
                self._send(messages.password(_md5(self._address.user, self._password(), reader.take(4))))
            case 10:
                offered = messages.sasl_mechanisms(reader)
                if MECHANISM not in offered:
                    raise AuthenticationError(f"{self._address} offers {', '.join(offered)}, and not {MECHANISM}")
                scram = ScramClient(self._password(), base64.b64encode(os.urandom(18)).decode())
                self._send(messages.sasl_initial(MECHANISM, scram.first()))
            case 11:
                if scram is None:
                    raise ProtocolError("the server goes on with SASL before it has begun")
                self._send(messages.sasl_response(scram.final(reader.rest())))
            case 12:
                if scram is None:
                    raise ProtocolError("the server ends SASL before it has begun")
                scram.verify(reader.rest())
            case method:
                raise PostgresqlError(
                    f"{self._address} wants authentication of the kind {method}; scram-sha-256, md5, password and "
                    "trust are known here, by pg_hba.conf"
                )
        return scram

    def _password(self) -> str:
        if self._address.password is None:
            raise PostgresqlError(f"{self._address} wants a password: `database-password` says it")
        return self._address.password

    def _next(self, deadline: float | None = None) -> tuple[bytes, bytes]:
        """The next message that is no notice."""
        while True:
            message = self._frames.next()
            if message is None:
                if self._is_interrupted():
                    raise Interrupted(f"{self._address}: the pipeline stops")
                if deadline is not None and time.monotonic() > deadline:
                    raise Unavailable(f"{self._address} does not answer within {CONNECT_S:.0f} s")
                if self._wait(LOOK_S):
                    self._feed()
            elif not self._noted(*message):
                return message

    def _noted(self, kind: bytes, body: bytes) -> bool:
        """Whether it is one of the messages that may come at any time."""
        if kind == b"S":
            reader = Reader(body, "a parameter")
            name = reader.text()
            self.parameters[name] = reader.text()
            reader.end()
        return kind in (b"S", b"N", b"A")

    def _wait(self, timeout_s: float) -> bool:
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        return bool(select.select([self._socket], [], [], max(0.0, timeout_s))[0])

    def _feed(self) -> None:
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            return  # bytes of TLS that are no data yet
        except OSError as error:
            raise Unavailable(f"the connection to {self._address} broke: {error.strerror or error}") from None
        if not data:
            raise Unavailable(f"{self._address} has closed the connection")
        self._frames.feed(data)

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise Unavailable(f"the connection to {self._address} broke: {error.strerror or error}") from None

    def _refused(self, body: bytes) -> PostgresqlError:
        found = error_fields(body)
        if found.sqlstate.startswith(_TRANSIENT) or found.sqlstate == _SLOT_IN_USE:
            return Unavailable(f"{self._address}: {found.line}")
        return Refused(f"{self._address}: {found.line}", found.sqlstate)


def _connected(address: Address) -> socket.socket:
    plain = socket.create_connection((address.host, address.port), CONNECT_S)
    try:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.ssl_mode == "disable":
            return plain
        plain.sendall(messages.SSL_REQUEST)
        # One byte and no more: whatever stands behind it before TLS is nobody's that we know (CVE-2021-23222).
        match plain.recv(1):
            case b"S":
                return _tls(address).wrap_socket(plain, server_hostname=address.host)
            case b"N" if address.ssl_mode == "prefer":
                return plain
            case b"N":
                raise PostgresqlError(f"{address} has no TLS, and database-sslmode is {address.ssl_mode}")
            case _:
                raise ProtocolError(f"{address} answers the request for TLS by something else")
    except BaseException:
        plain.close()
        raise


def _tls(address: Address) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=address.ssl_root_cert)
        context.check_hostname = address.ssl_mode == "verify-full"
        if address.ssl_mode in ("prefer", "require") and address.ssl_root_cert is None:
            context.verify_mode = ssl.CERT_NONE
        if address.ssl_cert is not None:
            context.load_cert_chain(address.ssl_cert, address.ssl_key)
    except OSError as error:
        raise PostgresqlError(f"a file of database-sslrootcert, -sslcert or -sslkey cannot be used: {error}") from None
    return context


def _md5(user: str, password: str, salt: bytes) -> str:
    inner = hashlib.md5((password + user).encode(), usedforsecurity=False).hexdigest()
    return "md5" + hashlib.md5(inner.encode() + salt, usedforsecurity=False).hexdigest()


def identifier(name: str) -> str:
    """A name as SQL has it, letter by letter."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as SQL has it, without escapes."""
    return "'" + text.replace("'", "''") + "'"


def listed(texts: Sequence[str]) -> str:
    """Texts as a list of SQL."""
    return ", ".join(map(literal, texts))
