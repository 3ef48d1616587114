"""The schema registry's client, against one in memory that is reached by HTTP."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from ottla.client.errors import SchemaRegistryError, SerializationError
from ottla.client.serialization import Schema, SchemaReference, SchemaRegistry, topic_name
from ottla.client.serialization.registry import CACHE_MAX
from ottla.client.serialization.schema_id import SchemaIds, split
from ottla.world.http import HttpFailed, fetch
from tests.support.schema_registry import FakeRegistry, fake_registry


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        yield registry


def test_a_schema_is_registered_once_and_read_once(server: FakeRegistry) -> None:
    registry = SchemaRegistry(server.url + "/")
    schema = Schema('"string"')
    assert [registry.register("t-value", schema) for _ in range(3)] == [1, 1, 1]
    assert [registry.schema(1) for _ in range(2)] == [schema, schema]
    assert server.asked == ["POST /subjects/t-value/versions", "GET /schemas/ids/1"]


def test_types_and_references_travel(server: FakeRegistry) -> None:
    registry = SchemaRegistry(server.url)
    schema = Schema("{}", "JSON", (SchemaReference("other.json", "other", 2),))
    number = registry.register("a/b c", schema)
    assert registry.schema(number) == schema
    assert server.asked[0] == "POST /subjects/a%2Fb%20c/versions"
    assert registry.latest("a/b c").schema == schema
    assert registry.version("a/b c", 1).schema_id == number


def test_the_latest_is_asked_for_each_time(server: FakeRegistry) -> None:
    registry = SchemaRegistry(server.url)
    registry.register("s", Schema('"int"'))
    assert registry.latest("s").version == 1
    registry.register("s", Schema('"long"'))
    assert registry.latest("s").version == 2


def test_a_refusal_says_what_the_registry_said_and_is_not_remembered(server: FakeRegistry) -> None:
    registry = SchemaRegistry(server.url)
    with pytest.raises(SchemaRegistryError, match="40403: Schema not found") as caught:
        registry.lookup("s", Schema('"int"'))
    assert caught.value.status == 404
    server.register("s", {"schema": '"int"'})
    assert registry.lookup("s", Schema('"int"')) == 1


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_an_address_that_does_not_answer_is_passed_over(server: FakeRegistry) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    assert SchemaRegistry(gone, server.url).register("s", Schema('"int"')) == 1
    with pytest.raises(SchemaRegistryError, match="no schema registry answered"):
        SchemaRegistry(gone).register("s", Schema('"int"'))


def test_a_user_and_a_password_are_sent(server: FakeRegistry) -> None:
    SchemaRegistry(server.url, user="u", password="p", headers={"X-One": "1"}).register("s", Schema('"int"'))
    assert server.headers[0]["Authorization"] == "Basic dTpw"
    assert server.headers[0]["X-One"] == "1"


def test_what_is_remembered_has_a_bound(server: FakeRegistry) -> None:
    registry = SchemaRegistry(server.url)
    server.schemas = {number: {"schema": '"int"'} for number in range(CACHE_MAX + 1)}
    for number in range(CACHE_MAX + 1):
        registry.schema(number)
    asked = len(server.asked)
    registry.schema(CACHE_MAX)
    assert len(server.asked) == asked, "the last one is remembered"
    registry.schema(0)
    assert len(server.asked) == asked + 1, "the first one is not any more"


def test_an_address_is_never_a_file_and_an_answer_never_too_long(server: FakeRegistry) -> None:
    with pytest.raises(HttpFailed, match="neither http nor https"):
        fetch("GET", "file:///etc/passwd", timeout_s=1)
    with pytest.raises(HttpFailed, match="more than 10 bytes"):
        fetch("GET", f"{server.url}/nothing", timeout_s=5, size_max=10)


def test_a_server_that_says_nothing_is_given_up_after_the_time_out() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(HttpFailed):
            fetch("GET", f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout_s=0.1)


def test_numbers_are_found_as_the_serializer_was_told(server: FakeRegistry) -> None:
    registry = SchemaRegistry(server.url)
    server.register("t-value", {"schema": '"int"'})
    server.register("t-value", {"schema": '"long"'})

    def prefix(*, auto_register: bool, use_latest: bool, text: str) -> bytes:
        ids = SchemaIds(registry, is_key=False, auto_register=auto_register, use_latest=use_latest, subject=topic_name)
        return ids.prefix("t", "r", Schema(text))

    assert prefix(auto_register=False, use_latest=True, text='"float"') == b"\0\0\0\0\2"
    assert prefix(auto_register=False, use_latest=False, text='"int"') == b"\0\0\0\0\1"
    assert prefix(auto_register=True, use_latest=False, text='"bytes"') == b"\0\0\0\0\3"
    with pytest.raises(SchemaRegistryError):
        prefix(auto_register=False, use_latest=False, text='"double"')


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0", b"\1\0\0\0\1x"])
def test_bytes_without_a_number_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="do not begin with a schema's number"):
        split("t", data)
