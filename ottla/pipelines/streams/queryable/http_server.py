"""Stores over HTTP, read only, answers in JSON.

| address | answer |
|---|---|
| `/stores` | the stores and their kinds |
| `/stores/NAME` | how many entries, and the changelog's offsets they come from |
| `/stores/NAME/keys/KEY` | one entry; `map_key=` for a map store; 404 when there is none |
| `/stores/NAME/keys?from=A&to=B` | a range of keys, both ends included; all without them |
| `/stores/NAME/windows/KEY?from_ms=A&to_ms=B` | a key's windows, or a map store's entries of a key |
| `/stores/NAME/windows?from_ms=A&to_ms=B` | all keys' windows |

Lists have at most `limit` entries (1000 unless told, never more than 10000) and `next`, to be given as `after`, when
there are more. `stale=true` answers without asking the broker. Keys are written as the store's key serde reads them
from text: numbers as numbers, bytes as hex, JSON as JSON. It listens on this machine alone unless told otherwise.
"""

from __future__ import annotations

import base64
import json
import logging
import sqlite3
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ottla.client.errors import SerializationError
from ottla.errors import KafkaError
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.queryable.store import Entry, QueryableStore
from ottla.pipelines.streams.stores import StoreKey, StoreKind

log = logging.getLogger(__name__)

LIMIT_DEFAULT = 1000
LIMIT_MAX = 10_000
IDLE_S = 30.0
"""A connection that says nothing for so long is closed."""


class StateServer:
    """Serves stores until it is closed. The stores stay the caller's to close."""

    def __init__(self, stores: Mapping[str, QueryableStore], *, host: str = "127.0.0.1", port: int = 0) -> None:
        """With port 0 a free one is taken; `address` says which."""
        answers = _Answers(stores)

        class Handler(_Handler):
            """Of this server's stores."""

            def answer(self, target: str) -> tuple[HTTPStatus, object]:
                return answers.answer(target)

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="ottla-state-server", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> StateServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


class _Refused(Exception):
    """A question that cannot be answered, with the status that says so."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Answers:
    """What each address is answered with."""

    def __init__(self, stores: Mapping[str, QueryableStore]) -> None:
        self._stores = stores

    def answer(self, target: str) -> tuple[HTTPStatus, object]:
        url = urlsplit(target)
        path = [unquote(part) for part in url.path.split("/")[1:]]
        asked = dict(parse_qsl(url.query, keep_blank_values=True))
        try:
            return HTTPStatus.OK, self._found(path, asked)
        except _Refused as refused:
            return refused.status, {"error": str(refused)}
        except (PipelineError, SerializationError) as error:
            return HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except KafkaError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": f"the changelog cannot be read now: {error}"}
        except sqlite3.Error as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": f"the store cannot be read: {error}"}

    def _found(self, path: list[str], asked: dict[str, str]) -> object:
        match path:
            case ["stores"]:
                return {"stores": [{"name": name, "kind": one.spec.kind.value} for name, one in self._stores.items()]}
            case ["stores", name]:
                return _summary(self._store(name), stale=_stale(asked))
            case ["stores", name, "keys"]:
                store = self._store(name)
                return _page(store, asked, first=_key(store, asked.get("from")), last=_key(store, asked.get("to")))
            case ["stores", name, "keys", key]:
                return _entry(self._store(name), key, asked)
            case ["stores", name, "windows"]:
                store = self._store(name)
                if not store.spec.is_windowed:
                    raise _Refused(HTTPStatus.BAD_REQUEST, f"store {name} has no windows")
                return _page(store, asked, from_ms=_number(asked, "from_ms"), to_ms=_number(asked, "to_ms"))
            case ["stores", name, "windows", key]:
                store = self._store(name)
                if store.spec.kind is StoreKind.KEY_VALUE:
                    raise _Refused(HTTPStatus.BAD_REQUEST, f"store {name} has no windows")
                one = _key(store, key)
                return _page(
                    store, asked, first=one, last=one, from_ms=_number(asked, "from_ms"), to_ms=_number(asked, "to_ms")
                )
            case _:
                raise _Refused(HTTPStatus.NOT_FOUND, "begin at /stores")

    def _store(self, name: str) -> QueryableStore:
        found = self._stores.get(name)
        if found is None:
            raise _Refused(HTTPStatus.NOT_FOUND, f"there is no store {name}; there are {', '.join(self._stores)}")
        return found


def _summary(store: QueryableStore, *, stale: bool) -> object:
    return {
        "name": store.spec.name,
        "kind": store.spec.kind.value,
        "entries": store.count(stale=stale),
        "positions": {str(partition): offset for partition, offset in sorted(store.positions().items())},
    }


def _entry(store: QueryableStore, key: str, asked: dict[str, str]) -> object:
    map_key = None if "map_key" not in asked else store.spec.map_key.parse(asked["map_key"])
    found = store.entry(_key(store, key), map_key=map_key, stale=_stale(asked))
    if found is None:
        raise _Refused(HTTPStatus.NOT_FOUND, f"store {store.spec.name} has no such key")
    return _shown(found)


def _page(store: QueryableStore, asked: dict[str, str], **chosen: Any) -> object:
    limit = _number(asked, "limit")
    limit = LIMIT_DEFAULT if limit is None else limit
    if not 1 <= limit <= LIMIT_MAX:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"limit must be from 1 to {LIMIT_MAX}")
    after = None if "after" not in asked else _read_cursor(asked["after"])
    entries, following = store.page(limit=limit, after=after, stale=_stale(asked), **chosen)
    shown: dict[str, object] = {"entries": [_shown(entry) for entry in entries]}
    if following is not None:
        shown["next"] = _write_cursor(following)
    return shown


def _shown(entry: Entry) -> dict[str, object]:
    """An entry without the parts that its store does not have."""
    return {name: value for name, value in entry._asdict().items() if value is not None or name == "value"}


def _key(store: QueryableStore, text: str | None) -> Any:
    return None if text is None else store.spec.key.parse(text)


def _number(asked: dict[str, str], name: str) -> int | None:
    if name not in asked:
        return None
    try:
        return int(asked[name])
    except ValueError:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"{name} must be a whole number") from None


def _stale(asked: dict[str, str]) -> bool:
    return asked.get("stale", "false").lower() == "true"


def _write_cursor(key: StoreKey) -> str:
    parts = [key.key.hex(), key.start_ms, key.end_ms, key.inner.hex()]
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def _read_cursor(text: str) -> StoreKey:
    try:
        key, start_ms, end_ms, inner = json.loads(base64.urlsafe_b64decode(text))
        return StoreKey(bytes.fromhex(key), int(start_ms), int(end_ms), bytes.fromhex(inner))
    except (ValueError, TypeError):
        raise _Refused(HTTPStatus.BAD_REQUEST, "after must be the `next` of an earlier answer") from None


def _json(value: object) -> object:
    """Bytes as hex: JSON has no other way for them."""
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__name__} has no JSON form")


class _Handler(BaseHTTPRequestHandler):
    """GET and HEAD; everything else is refused by the base."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    server_version = "ottla"
    sys_version = ""

    def answer(self, target: str) -> tuple[HTTPStatus, object]:
        raise NotImplementedError

    def do_GET(self) -> None:
        status, found = self.answer(self.path)
        body = json.dumps(found, default=_json, ensure_ascii=False).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("[StateServer %s] " + format, self.client_address[0], *args)
