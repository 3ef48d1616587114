"""`ottla/server/dispatch.py` and the table of handlers."""

from __future__ import annotations

import importlib
import json
import pkgutil

import pytest

from ottla.server import Dispatcher, handlers
from ottla.server.handlers import SERVED, UNADVERTISED
from ottla.wire import APIS, message_class
from tests.support.golden import GOLDEN
from tests.unit.server.nodes import Server, serve

ADVERTISED = json.loads((GOLDEN / "kafka-facts" / "api-versions.json").read_text())


def test_every_handler_module_is_listed_and_every_listed_api_has_one() -> None:
    modules = {module.name for module in pkgutil.iter_modules(handlers.__path__)}
    by_name = {api.name: api.module.rpartition(".")[2] for api in APIS.values()}
    assert modules == {by_name[name] for names in SERVED.values() for name in names}


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_what_is_served_is_advertised_as_kafka_does_and_nothing_that_kafka_does_not(role: str) -> None:
    async def test(server: Server) -> None:
        told = {key.api_key: (key.min_version, key.max_version) for key in Dispatcher(server.broker, role).advertised}
        kafkas = {api["apiKey"]: (api["min"], api["max"]) for api in ADVERTISED[role]}
        assert told == {key: kafkas[key] for key in told}
        assert len(told) == len(SERVED[role] - UNADVERTISED)

    serve(test)


@pytest.mark.parametrize("name", sorted(set().union(*SERVED.values())))
def test_a_handler_takes_its_own_request_and_says_which_api_it_serves(name: str) -> None:
    api = next(api for api in APIS.values() if api.name == name)
    module = importlib.import_module(api.module.replace("ottla.wire.messages.", "ottla.server.handlers."))
    assert api.key == module.API_KEY
    assert module.handle.__annotations__["request"] == message_class(f"{name}Request").__name__
    assert module.handle.__doc__ is not None or module.__doc__ is not None


def test_an_unstable_or_unserved_version_has_no_route() -> None:
    async def test(server: Server) -> None:
        dispatcher = server.broker.dispatchers["broker"]
        assert dispatcher.route(22 << 16 | 5) is not None
        assert dispatcher.route(22 << 16 | 6) is None, "the latest version of InitProducerId is not stable"
        assert dispatcher.route(0 << 16 | 2) is None, "told to librdkafka, and refused (KAFKA-18659)"
        assert dispatcher.route(3 << 16 | 14) is None
        assert dispatcher.route(62 << 16 | 4) is None, "of the controller's listener"

    serve(test)
