"""`describe_configs.py`, `alter_configs.py` and `incremental_alter_configs.py` of `ottla/server/handlers`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pytest

from ottla.config import BrokerConfig
from ottla.errors import (
    InvalidConfig,
    InvalidRequest,
    InvalidTopicException,
    NotController,
    UnknownTopicOrPartition,
)
from ottla.metadata import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from ottla.server.handlers import alter_configs, incremental_alter_configs
from ottla.server.shared_handlers import describe_configs
from ottla.wire import Message
from ottla.wire.messages import alter_configs as legacy
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from tests.unit.server.nodes import FakeController, ask, image_of, topic_image

CONFIG = BrokerConfig(
    {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
        "log.retention.hours": "24",
    }
)
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger("ottla.test.of.the.loggers")
    yield made
    made.setLevel(logging.NOTSET)


def describe(kind: int, name: str, keys: list[str] | None = None, version: int = 4) -> DescribeConfigsResult:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)], include_synonyms=True)
    image = image_of(
        topic_image("orders"),
        configs={(TOPIC, "orders"): {"retention.ms": "1000"}, (BROKER, ""): {"log.cleaner.threads": "2"}},
    )
    (result,) = ask(describe_configs, request, version, image=image, config=CONFIG).results
    assert isinstance(result, DescribeConfigsResult)
    return result


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_tells_a_topics_settings_and_where_they_come_from(version: int) -> None:
    result = describe(TOPIC, "orders", version=version)
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "orders")
    found = {config.name: config for config in result.configs}
    assert len(found) > 25
    retention = found["retention.ms"]
    assert (retention.value, retention.config_source, retention.read_only) == ("1000", 1, False)
    assert (retention.synonyms[0].name, retention.synonyms[0].source) == ("retention.ms", 1)
    assert found["segment.bytes"].config_source == 5


def test_settings_can_be_asked_for_by_name() -> None:
    assert [config.name for config in describe(TOPIC, "orders", ["retention.ms", "?"]).configs] == ["retention.ms"]


def test_a_broker_tells_its_own_settings_and_those_of_all_brokers() -> None:
    own = {config.name: config for config in describe(BROKER, "1").configs}
    assert (own["log.cleaner.threads"].value, own["log.cleaner.threads"].config_source) == ("2", 3)
    assert (own["log.retention.hours"].value, own["log.retention.hours"].config_source) == ("24", 4)
    assert own["node.id"].read_only
    assert [(config.name, config.value) for config in describe(BROKER, "").configs] == [("log.cleaner.threads", "2")]


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "gone", UnknownTopicOrPartition.code),
        (TOPIC, "bad name", InvalidTopicException.code),
        (BROKER, "2", InvalidRequest.code),
        (BROKER, "one", InvalidRequest.code),
        (BROKER_LOGGER, "", InvalidRequest.code),
        (BROKER_LOGGER, "2", InvalidRequest.code),
        (GROUP, "", InvalidRequest.code),
        (CLIENT_METRICS, "", InvalidRequest.code),
        (77, "x", InvalidRequest.code),
    ],
)
def test_a_resource_that_cannot_be_described_has_its_error(kind: int, name: str, error: int) -> None:
    result = describe(kind, name)
    assert (result.error_code, result.configs) == (error, [])


def test_groups_and_client_metrics_have_settings_without_having_been_set() -> None:
    assert "consumer.session.timeout.ms" in {config.name for config in describe(GROUP, "g").configs}
    assert "interval.ms" in {config.name for config in describe(CLIENT_METRICS, "m").configs}


def test_loggers_are_described_with_the_level_in_effect(logger: logging.Logger) -> None:
    logger.setLevel(logging.WARNING)
    found = {config.name: config for config in describe(BROKER_LOGGER, "1").configs}
    assert (found[logger.name].value, found[logger.name].config_source) == ("WARN", 6)
    assert "root" in found


def accept_incremental(request: Message, version: int) -> Message:
    assert isinstance(request, incremental.IncrementalAlterConfigsRequest)
    return incremental.IncrementalAlterConfigsResponse(
        responses=[
            incremental.AlterConfigsResourceResponse(0, None, resource.resource_type, resource.resource_name)
            for resource in request.resources
        ]
    )


def alter(
    *resources: tuple[int, str, Sequence[tuple[str, int, str | None]]],
    controller: FakeController,
    validate_only: bool = False,
    version: int = 1,
) -> list[int]:
    request = incremental.IncrementalAlterConfigsRequest(
        [
            incremental.AlterConfigsResource(kind, name, [incremental.AlterableConfig(*change) for change in changes])
            for kind, name, changes in resources
        ],
        validate_only,
    )
    image = image_of(configs={(BROKER, "1"): {"log.cleaner.threads": "2"}})
    response = ask(incremental_alter_configs, request, version, image=image, config=CONFIG, controller=controller)
    assert [(r.resource_type, r.resource_name) for r in response.responses] == [r[:2] for r in resources]
    return [answer.error_code for answer in response.responses]


@pytest.mark.parametrize("version", range(2))
def test_what_a_broker_accepts_goes_to_the_controller_and_the_answers_keep_their_order(version: int) -> None:
    controller = FakeController(answer=accept_incremental)
    codes = alter(
        (TOPIC, "orders", [("retention.ms", SET, "1")]),
        (BROKER, "2", [("log.cleaner.threads", SET, "3")]),
        (BROKER, "1", [("log.cleaner.threads", SET, "3")]),
        (TOPIC, "twice", [("a", SET, "1"), ("a", APPEND, "1")]),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, None)]),
        controller=controller,
        version=version,
    )
    assert codes == [0, InvalidRequest.code, 0, InvalidRequest.code, InvalidRequest.code]
    ((sent, _version),) = controller.asked
    assert isinstance(sent, incremental.IncrementalAlterConfigsRequest)
    assert [(r.resource_type, r.resource_name) for r in sent.resources] == [(TOPIC, "orders"), (BROKER, "1")]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([("node.id", SET, "2")], id="not dynamic"),
        pytest.param([("log.cleaner.threads", SET, "many")], id="not a number"),
        pytest.param([("log.cleaner.threads", 9, "1")], id="unknown operation"),
        pytest.param([("listeners", APPEND, "X")], id="a listener without a protocol"),
    ],
)
def test_a_broker_refuses_settings_that_it_cannot_run_with(changes: list[tuple[str, int, str | None]]) -> None:
    controller = FakeController()
    assert alter((BROKER, "1", changes), controller=controller) == [InvalidRequest.code]
    assert controller.asked == []


def test_a_list_can_be_appended_to_and_nothing_else() -> None:
    controller = FakeController(answer=accept_incremental)
    assert alter((BROKER, "1", [("log.cleaner.threads", APPEND, "1")]), controller=controller) == [InvalidConfig.code]
    assert alter((BROKER, "1", [("log.cleanup.policy", APPEND, "compact")]), controller=controller) == [0]


def test_the_same_resource_twice_is_refused_both_times() -> None:
    change = [("retention.ms", SET, "1")]
    assert alter((TOPIC, "a", change), (TOPIC, "a", change), controller=FakeController()) == [InvalidRequest.code] * 2


def test_a_loggers_level_changes_here_and_goes_back_to_its_parents(logger: logging.Logger) -> None:
    controller = FakeController()
    assert alter((BROKER_LOGGER, "1", [(logger.name, SET, "DEBUG")]), controller=controller) == [0]
    assert logger.level == logging.DEBUG
    only_checked = [(logger.name, SET, "ERROR")]
    assert alter((BROKER_LOGGER, "1", only_checked), controller=controller, validate_only=True) == [0]
    assert logger.level == logging.DEBUG
    assert alter((BROKER_LOGGER, "1", [(logger.name, DELETE, None)]), controller=controller) == [0]
    assert logger.level == logging.NOTSET
    assert controller.asked == []


@pytest.mark.parametrize(
    ("name", "operation", "level", "error"),
    [
        ("no.such.logger", SET, "INFO", InvalidConfig.code),
        ("root", SET, "LOUD", InvalidConfig.code),
        ("root", DELETE, None, InvalidRequest.code),
        ("root", APPEND, "INFO", InvalidRequest.code),
    ],
)
def test_a_wrong_change_of_a_logger_is_refused(name: str, operation: int, level: str | None, error: int) -> None:
    assert alter((BROKER_LOGGER, "1", [(name, operation, level)]), controller=FakeController()) == [error]


@pytest.mark.parametrize("version", range(3))
def test_whole_sets_of_settings_are_checked_and_forwarded_too(version: int) -> None:
    def accept(request: Message, version: int) -> Message:
        assert isinstance(request, legacy.AlterConfigsRequest)
        return legacy.AlterConfigsResponse(
            responses=[
                legacy.AlterConfigsResourceResponse(0, None, r.resource_type, r.resource_name)
                for r in request.resources
            ]
        )

    def resource(kind: int, name: str, key: str, value: str | None) -> legacy.AlterConfigsResource:
        return legacy.AlterConfigsResource(kind, name, [legacy.AlterableConfig(key, value)])

    request = legacy.AlterConfigsRequest(
        [
            resource(TOPIC, "a", "retention.ms", "1"),
            resource(BROKER, "1", "node.id", "7"),
            resource(BROKER_LOGGER, "1", "root", "INFO"),
            resource(TOPIC, "b", "retention.ms", None),
        ]
    )
    controller = FakeController(answer=accept)
    response = ask(alter_configs, request, version, image=image_of(), config=CONFIG, controller=controller)
    assert [answer.error_code for answer in response.responses] == [0, *[InvalidRequest.code] * 3]
    assert len(controller.asked) == 1


def test_without_a_controller_every_resource_has_the_error() -> None:
    def absent(request: Message, version: int) -> Message:
        raise NotController

    change = [("retention.ms", SET, "1")]
    assert alter((TOPIC, "a", change), controller=FakeController(answer=absent)) == [NotController.code]
