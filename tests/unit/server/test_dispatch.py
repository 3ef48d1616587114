"""`ottla/server/dispatch.py`, `roles.py` and the tables of handlers."""

from __future__ import annotations

import importlib
import json
import pkgutil
from types import ModuleType

import pytest

from ottla.server import Dispatcher, controller_handlers, handlers, shared_handlers
from ottla.server.roles import BROKER, CONTROLLER, ROLES, Role
from ottla.wire import APIS, message_class
from tests.support.golden import GOLDEN
from tests.unit.server.nodes import Server, serve

FACTS = json.loads((GOLDEN / "kafka-facts" / "api-versions.json").read_text())
BY_NAME = {api.name: api for api in APIS.values()}
NOT_SERVED = {
    "broker": {
        *("DescribeAcls", "CreateAcls", "DeleteAcls"),
        *("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"),
        *("DescribeClientQuotas", "AlterClientQuotas", "DescribeUserScramCredentials", "AlterUserScramCredentials"),
        *("AlterReplicaLogDirs", "AddRaftVoter", "RemoveRaftVoter"),
    },
    "controller": {
        *("DescribeAcls", "CreateAcls", "DeleteAcls"),
        *("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"),
        *("AlterClientQuotas", "DescribeUserScramCredentials", "AlterUserScramCredentials"),
        *("AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter"),
    },
}
"""What Kafka serves and Ottla does not yet, by the role of the listener."""


@pytest.mark.parametrize("package", [handlers, controller_handlers, shared_handlers])
def test_every_handler_module_is_listed_and_every_listed_api_has_one(package: ModuleType) -> None:
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert modules == {BY_NAME[name].module.rpartition(".")[2] for name in package.SERVED}


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_a_listener_advertises_what_kafka_does_but_for_what_is_not_served_yet(role: str) -> None:
    async def test(server: Server) -> None:
        told = {key.api_key: (key.min_version, key.max_version) for key in server.dispatcher.advertised}
        kafkas = {api["apiKey"]: (api["min"], api["max"]) for api in FACTS[role] if api["name"] not in NOT_SERVED[role]}
        assert told == kafkas
        assert len(told) == len(set(ROLES[role].packages) - ROLES[role].unadvertised)

    serve(test, role=role)


@pytest.mark.parametrize(("role", "name"), [(role, name) for role in ROLES.values() for name in sorted(role.packages)])
def test_a_handler_takes_its_own_request_and_the_context_of_its_role(role: Role, name: str) -> None:
    api = BY_NAME[name]
    module_name = role.handler_module(api)
    assert module_name is not None
    module = importlib.import_module(module_name)
    assert api.key == module.API_KEY
    assert module.handle.__annotations__["request"] == message_class(f"{name}Request").__name__
    is_shared = role.packages[name] == shared_handlers.__name__
    own = {"broker": "BrokerContext", "controller": "ControllerContext"}[role.name]
    assert module.handle.__annotations__["context"] == ("RequestContext" if is_shared else own)
    assert module.handle.__doc__ is not None or module.__doc__ is not None


def test_an_api_that_both_roles_have_has_a_handler_in_each_unless_they_answer_alike() -> None:
    both = set(BROKER.packages) & set(CONTROLLER.packages)
    alike = {name for name in both if BROKER.packages[name] == CONTROLLER.packages[name]}
    assert alike == shared_handlers.SERVED


def test_an_unstable_or_unserved_version_has_no_route() -> None:
    async def test(server: Server) -> None:
        dispatcher: Dispatcher = server.dispatcher
        assert dispatcher.route(22 << 16 | 5) is not None
        assert dispatcher.route(22 << 16 | 6) is None, "the latest version of InitProducerId is not stable"
        assert dispatcher.route(0 << 16 | 2) is None, "told to librdkafka, and refused (KAFKA-18659)"
        assert dispatcher.route(3 << 16 | 14) is None
        assert dispatcher.route(62 << 16 | 4) is None, "of the controller's listener"

    serve(test)
