"""A registry's address: what a driver is given, and what travels to its workers.

The driver asks what is asked once: the latest schema, the number of a schema that is written. The workers ask for the
schemas of the values that they read, each process once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from ottla.client.errors import SchemaRegistryError
from ottla.client.serialization import SchemaRegistry, topic_name
from ottla.client.serialization.registry import RegisteredSchema
from ottla.pipelines.errors import PipelineError

REGISTRIES_MAX = 16
"""How many registries a process remembers the answers of."""


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """A registry that speaks Confluent's REST interface, with what it asks for: `RegistryAddress("https://host")`.

    `more_urls` are tried in turn when the first does not answer.
    """

    url: str
    more_urls: tuple[str, ...] = ()
    user: str | None = None
    password: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout: float = 10.0

    def connect(self) -> SchemaRegistry:
        """The registry, with what this process has learnt of it already."""
        return _connect(self)


def address_of(registry: str | RegistryAddress) -> RegistryAddress:
    return RegistryAddress(registry) if isinstance(registry, str) else registry


def is_address(text: object) -> bool:
    """Whether a schema that was given is a registry's address: no schema's text begins like one."""
    return isinstance(text, RegistryAddress) or (isinstance(text, str) and text.startswith(("http://", "https://")))


def subject_of(subject: str | None, topic: str | None, *, is_key: bool, record: str = "") -> str:
    """Under which name the registry has the schema."""
    if subject is not None:
        return subject
    if topic is None:
        raise PipelineError("a registry has schemas by subject: say topic='...' or subject='...'")
    return topic_name(topic, is_key, record)


def latest(registry: RegistryAddress, subject: str, kind: str) -> RegisteredSchema:
    """The subject's last schema, which has to be of this kind and complete in itself."""
    try:
        found = registry.connect().latest(subject)
    except SchemaRegistryError as error:
        raise PipelineError(f"subject {subject}: {error}") from error
    if found.schema.type != kind:
        raise PipelineError(f"subject {subject} has schemas of kind {found.schema.type}, and not {kind}")
    return found


@lru_cache(maxsize=REGISTRIES_MAX)
def _connect(address: RegistryAddress) -> SchemaRegistry:
    return SchemaRegistry(
        address.url,
        *address.more_urls,
        user=address.user,
        password=address.password,
        headers=dict(address.headers),
        timeout=address.timeout,
    )
