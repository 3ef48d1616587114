"""The table of APIs tells what the classes tell, and advertises what Kafka's listeners advertise."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ottla.errors import InvalidRequest
from ottla.wire import APIS, Versions, find_api, message_class, message_names, request_class, response_class
from tests.support.golden import GOLDEN

REQUESTS = json.loads((GOLDEN / "kafka-facts" / "requests.json").read_text())


def test_the_table_has_the_keys_names_versions_and_listeners_of_kafka() -> None:
    expected = {
        row["apiKey"]: (
            row["name"].removesuffix("Request"),
            row["validVersions"],
            row.get("flexibleVersions", "none"),
            set(row.get("listeners", [])),
            row.get("latestVersionUnstable", False),
        )
        for row in REQUESTS
        if row["type"] == "request"
    }
    found = {
        api.key: (api.name, str(api.versions), str(api.flexible), set(api.listeners), api.is_latest_unstable)
        for api in APIS.values()
    }
    assert found == expected
    assert len(found) == 93


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_what_is_advertised_is_what_kafkas_listener_advertises(listener: str) -> None:
    rows = json.loads((GOLDEN / "kafka-facts" / "api-versions.json").read_text())[listener]
    expected = {row["apiKey"]: (row["name"], row["min"], row["max"]) for row in rows}
    served = [api for api in APIS.values() if listener in api.listeners]
    # Kafka advertises telemetry only where a receiver of it is configured, and that broker had none.
    found = {api.key: (api.name, *api.advertised) for api in served if "Telemetry" not in api.name}
    assert found == expected


def test_the_classes_have_the_versions_of_the_table() -> None:
    for api in APIS.values():
        for cls in (request_class(api.key), response_class(api.key)):
            assert cls.schema.api_key == api.key
            assert (cls.schema.versions, cls.schema.flexible) == (api.versions, api.flexible), cls.__name__
        assert request_class(api.key).__name__ == f"{api.name}Request"
        assert response_class(api.key).__name__ == f"{api.name}Response"


def test_a_flexible_version_has_a_flexible_header_except_the_response_of_api_versions() -> None:
    fetch, api_versions = find_api(1), find_api(18)
    assert [fetch.request_header_version(version) for version in (4, 11, 12, 18, 99)] == [1, 1, 2, 2, 2]
    assert [fetch.response_header_version(version) for version in (4, 11, 12, 18)] == [0, 0, 1, 1]
    assert [api_versions.request_header_version(version) for version in (-1, 0, 2, 3, 4, 5, 500)] == [
        1,
        1,
        1,
        2,
        2,
        2,
        2,
    ]
    assert {api_versions.response_header_version(version) for version in (-1, 0, 2, 3, 4, 5, 500)} == {0}
    assert find_api(17).request_header_version(1) == 1


def test_a_removed_api_keeps_its_key_and_has_no_version() -> None:
    for key in (4, 5, 6, 7):
        assert find_api(key).is_removed
        assert str(find_api(key).versions) == "none"
        assert not request_class(key).schema.versions.includes(0)


@pytest.mark.parametrize("key", [-1, 93, 9999])
def test_an_unknown_key_is_an_invalid_request(key: int) -> None:
    for find in (find_api, request_class, response_class):
        with pytest.raises(InvalidRequest, match=f"Unknown API key {key}"):
            find(key)


def test_an_unknown_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        message_class("FetchRequests")


def test_advertised_versions_leave_out_the_unstable_one() -> None:
    assert find_api(22).advertised == Versions(0, 5)
    assert find_api(22).versions == Versions(0, 6)


def test_the_front_door_imports_no_message() -> None:
    """A process that speaks one API loads one module of messages."""
    script = (
        "import sys, ottla.wire\n"
        "families = ('messages', 'metadata', 'coordinator', 'data')\n"
        "def loaded(): return sorted(n for n in sys.modules if n.split('.')[2:3] and n.split('.')[2] in families)\n"
        "print(loaded())\n"
        "ottla.wire.request_class(1)\n"
        "print(loaded())\n"
        "print(sorted({'dataclasses', 'inspect', 'json', 're'} & set(sys.modules)))\n"
    )
    printed = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{script}"],
                             capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert printed.splitlines() == ["[]", "['ottla.wire.messages', 'ottla.wire.messages.fetch']", "['re']"]


def test_every_name_leads_to_a_class_of_that_name() -> None:
    assert [message_class(name).__name__ for name in message_names()] == message_names()
