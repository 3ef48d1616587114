"""Schemas that have a number: what a schema is, and where its number comes from.

`SchemaRegistry("http://localhost:8081")` asks a registry that speaks Confluent's REST interface; anything else with its
methods can stand in its place. Promises: an answer is asked for once and remembered, within a bound; what fails raises
`SchemaRegistryError` and is not remembered. It blocks while it asks: an async producer waits once for each new schema.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from ottla.client.errors import SchemaRegistryError
from ottla.world.http import HttpFailed, fetch

T = TypeVar("T")

CACHE_MAX = 1000
"""How many answers a registry remembers; a client that sees more schemas than this asks again for the oldest."""

_JSON = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one uses: under which name, and where it is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as the registry has it. `type` is `AVRO`, `JSON` or `PROTOBUF`."""

    text: str
    type: str = "AVRO"
    references: tuple[SchemaReference, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its number and its place in a subject."""

    schema_id: int
    subject: str
    version: int
    schema: Schema


class Registry(Protocol):
    """What serializers ask."""

    def register(self, subject: str, schema: Schema) -> int:
        """The schema's number; it is added to the subject when it is not there."""
        ...

    def lookup(self, subject: str, schema: Schema) -> int:
        """The schema's number; one that the subject does not have is refused."""
        ...

    def latest(self, subject: str) -> RegisteredSchema:
        """The subject's last schema."""
        ...

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of the subject."""
        ...

    def schema(self, schema_id: int) -> Schema:
        """The schema with this number."""
        ...


class SchemaRegistry:
    """A registry at one or more addresses, tried in turn when one does not answer. It is safe to share."""

    def __init__(
        self,
        url: str,
        *more_urls: str,
        user: str | None = None,
        password: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._urls = [one.rstrip("/") for one in (url, *more_urls)]
        self._headers = {"Accept": _JSON, "Content-Type": _JSON, **(headers or {})}
        if user is not None:
            token = binascii.b2a_base64(f"{user}:{password}".encode(), newline=False).decode("ascii")
            self._headers["Authorization"] = f"Basic {token}"
        self._timeout = timeout
        self._answers: dict[Hashable, Any] = {}

    def register(self, subject: str, schema: Schema) -> int:
        def ask() -> int:
            return _whole(self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", _body(schema)), "id")

        return self._remembered(("register", subject, schema), ask)

    def lookup(self, subject: str, schema: Schema) -> int:
        def ask() -> int:
            return _whole(self._ask("POST", f"/subjects/{quote(subject, safe='')}", _body(schema)), "id")

        return self._remembered(("lookup", subject, schema), ask)

    def latest(self, subject: str) -> RegisteredSchema:
        """Asked each time: the latest is not the latest for ever."""
        return self._version(subject, "latest")

    def version(self, subject: str, version: int) -> RegisteredSchema:
        return self._remembered(("version", subject, version), lambda: self._version(subject, str(version)))

    def schema(self, schema_id: int) -> Schema:
        return self._remembered(("id", schema_id), lambda: _schema(self._ask("GET", f"/schemas/ids/{schema_id}")))

    def _version(self, subject: str, version: str) -> RegisteredSchema:
        answer = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}")
        return RegisteredSchema(_whole(answer, "id"), subject, _whole(answer, "version"), _schema(answer))

    def _remembered(self, question: Hashable, ask: Callable[[], T]) -> T:
        found = self._answers.get(question)
        if found is None:
            found = ask()
            while len(self._answers) >= CACHE_MAX:
                self._answers.pop(next(iter(self._answers)), None)
            self._answers[question] = found
        answer: T = found
        return answer

    def _ask(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        failure: Exception | None = None
        for url in self._urls:
            try:
                answer = fetch(method, url + path, body=body, headers=self._headers, timeout_s=self._timeout)
            except HttpFailed as error:
                failure = error
                continue
            return _read(path, answer.status, answer.body)
        raise SchemaRegistryError(f"no schema registry answered: {failure}") from failure


def _body(schema: Schema) -> bytes:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.type != "AVRO":
        body["schemaType"] = schema.type
    if schema.references:
        body["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
        ]
    return json.dumps(body).encode()


def _read(path: str, status: int, body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not 200 <= status < 300:
        told = answer if isinstance(answer, dict) else {}
        message = told.get("message") or body[:200].decode("utf-8", "replace")
        raise SchemaRegistryError(
            f"the schema registry refused {path} with {told.get('error_code', status)}: {message}", status=status
        )
    if not isinstance(answer, dict):
        raise SchemaRegistryError(f"the schema registry answered {path} with something else than JSON")
    return answer


def _schema(answer: dict[str, Any]) -> Schema:
    try:
        references = tuple(
            SchemaReference(one["name"], one["subject"], int(one["version"])) for one in answer.get("references") or ()
        )
        return Schema(str(answer["schema"]), answer.get("schemaType") or "AVRO", references)
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaRegistryError(f"the schema registry answered without a schema: {error!r}") from error


def _whole(answer: dict[str, Any], name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int):
        raise SchemaRegistryError(f"the schema registry answered without {name}")
    return value
