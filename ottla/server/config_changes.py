"""Changes of settings: what a broker checks and does itself before the controller is asked for the rest.

A broker knows its own settings, so it refuses what it could not run with; its loggers are its own altogether. What is
left goes to the controller in one request, and the answers come back in the order of the resources. Called by
AlterConfigs and IncrementalAlterConfigs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from ottla.config import BrokerConfig, ConfigType, validate_dynamic
from ottla.errors import NONE, InvalidConfig, InvalidRequest, KafkaError, UnknownServerError
from ottla.metadata import BROKER, CLIENT_METRICS, GROUP, TOPIC
from ottla.server.loggers import APPEND, DELETE, SET, SUBTRACT
from ottla.server.node_context import NodeContext

FORWARDED = (TOPIC, BROKER, CLIENT_METRICS, GROUP)


class Resource(Protocol):
    """A resource of a request."""

    resource_type: int
    resource_name: str


class ResourceAnswer(Protocol):
    """A resource of a response."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


class Change(Protocol):
    """One changed setting."""

    name: str
    config_operation: int
    value: str | None


R = TypeVar("R", bound=Resource)
Outcome = tuple[int, str | None]
"""An error code and its message."""


def outcome_of(error: KafkaError) -> Outcome:
    return error.code, error.message


def preprocess(resources: Sequence[R], check: Callable[[R], bool]) -> dict[int, Outcome]:
    """The outcomes that are known here, by the place of the resource.

    `check` raises for a resource that is refused, and says whether one is done with already.
    """
    done: dict[int, Outcome] = {}
    seen: dict[tuple[int, str], int] = {}
    for place, resource in enumerate(resources):
        before = seen.setdefault((resource.resource_type, resource.resource_name), place)
        if before != place:
            twice = outcome_of(InvalidRequest("Each resource must appear at most once."))
            done[before] = done[place] = twice
    for place, resource in enumerate(resources):
        if place in done:
            continue
        try:
            if check(resource):
                done[place] = (NONE, None)
        except KafkaError as error:
            done[place] = outcome_of(error)
    return done


def merge(
    resources: Sequence[Resource], done: Mapping[int, Outcome], answers: Iterable[ResourceAnswer]
) -> list[Outcome]:
    """The outcome of every resource, in order."""
    told = {
        (answer.resource_type, answer.resource_name): (answer.error_code, answer.error_message) for answer in answers
    }
    missing = outcome_of(UnknownServerError("The controller did not answer for this resource."))
    return [
        done[place] if place in done else told.get((resource.resource_type, resource.resource_name), missing)
        for place, resource in enumerate(resources)
    ]


def check_values(names: Sequence[str], without_value: Sequence[str]) -> None:
    """No setting twice, and none that is set to nothing."""
    if len(set(names)) != len(names):
        raise InvalidRequest("Error due to duplicate config keys")
    if without_value:
        raise InvalidRequest(f"Null value not supported for : {', '.join(without_value)}")


def check_kind(resource: Resource, kinds: Sequence[int] = FORWARDED) -> None:
    if resource.resource_type not in kinds:
        raise InvalidRequest(f"Unknown resource type {resource.resource_type}")


def check_node_id(name: str, node_id: int) -> None:
    """A broker answers for itself only."""
    try:
        named = int(name)
    except ValueError:
        raise InvalidRequest(f"Node id must be an integer, but it is: {name}") from None
    if named != node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {node_id}, but received {name}")


def check_broker_settings(node: NodeContext, name: str, values: Mapping[str, str]) -> None:
    """Whether this broker could run with `values` as the metadata log's settings for it, or for all when unnamed."""
    if name:
        check_node_id(name, node.node_id)
    validate_dynamic(values, node.dynamic_config, per_broker=bool(name))


def changed_settings(current: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """A broker's settings in the metadata log after `changes`."""
    values = dict(current)
    for change in changes:
        name, value = change.name, change.value or ""
        if change.config_operation == SET:
            values[name] = value
        elif change.config_operation == DELETE:
            values.pop(name, None)
        elif change.config_operation in (APPEND, SUBTRACT):
            items = _list_of(name, values.get(name), change.config_operation)
            if change.config_operation == APPEND:
                items += [item for item in value.split(",") if item not in items]
            else:
                items = [item for item in items if item not in value.split(",")]
            values[name] = ",".join(items)
        else:
            raise InvalidRequest(f"Unknown operations type {change.config_operation}")
    return values


def _list_of(name: str, value: str | None, operation: int) -> list[str]:
    setting = BrokerConfig.settings.get(name)
    if setting is None:
        raise InvalidConfig(f"Unknown config name: {name}")
    if setting.type is not ConfigType.LIST:
        word = "append" if operation == APPEND else "subtract"
        raise InvalidConfig(f"Config value {word} is not allowed for config key: {name}")
    if value is None:
        return list(setting.default or ())
    return value.split(",") if value else []
