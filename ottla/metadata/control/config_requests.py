"""AlterConfigs and IncrementalAlterConfigs: one answer for each resource.

Promises: a resource that is refused leaves the others whole; with `validate_only` nothing is recorded. Called by the
controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ottla.errors import InvalidRequest, KafkaError, UnsupportedVersion
from ottla.machine import Result
from ottla.metadata.control.configs import DELETE, Alteration, ConfigControl
from ottla.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.metadata import VersionedRecord

_RESOURCE_TYPES = frozenset({TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP})


class Resource(Protocol):
    """A resource of either request."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


R = TypeVar("R", bound=Resource)
Answer = tuple[int, str | None, int, str]
"""Error code, error message, and the resource they are about."""


class ConfigRequests:
    """Decisions about whole requests."""

    def __init__(self, configs: ConfigControl) -> None:
        self._configs = configs

    def replace(self, request: AlterConfigsRequest) -> Result[AlterConfigsResponse]:
        """Give every resource the settings named, and no others."""
        answers, records = self._each(request.resources, self._replace)
        responses = [AlterConfigsResourceResponse(*answer) for answer in answers]
        return Result(AlterConfigsResponse(responses=responses), [] if request.validate_only else records)

    def alter(self, request: IncrementalAlterConfigsRequest) -> Result[IncrementalAlterConfigsResponse]:
        """Change single settings."""
        answers, records = self._each(request.resources, self._alter)
        responses = [IncrementalResourceResponse(*answer) for answer in answers]
        return Result(IncrementalAlterConfigsResponse(responses=responses), [] if request.validate_only else records)

    def _replace(self, resource: AlterConfigsResource) -> list[VersionedRecord]:
        _check_names([config.name for config in resource.configs])
        _check_nulls([config.name for config in resource.configs if config.value is None])
        settings = {config.name: config.value for config in resource.configs}
        return self._configs.replace((resource.resource_type, resource.resource_name), settings)

    def _alter(self, resource: IncrementalResource) -> list[VersionedRecord]:
        _check_names([config.name for config in resource.configs])
        configs = resource.configs
        _check_nulls([config.name for config in configs if config.value is None and config.config_operation != DELETE])
        alterations = [Alteration(config.name, config.config_operation, config.value) for config in configs]
        return self._configs.alter((resource.resource_type, resource.resource_name), alterations)

    def _each(
        self, resources: Sequence[R], decide: Callable[[R], list[VersionedRecord]]
    ) -> tuple[list[Answer], list[VersionedRecord]]:
        times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
        answers: dict[tuple[int, str], Answer] = {}
        records: list[VersionedRecord] = []
        for resource in resources:
            key = kind, name = resource.resource_type, resource.resource_name
            try:
                if kind not in _RESOURCE_TYPES:
                    raise UnsupportedVersion(f"Unknown resource type {kind}.")
                if times[key] > 1:
                    raise InvalidRequest("Duplicate resource.")
                records += decide(resource)
                answers[key] = (0, None, kind, name)
            except KafkaError as error:
                answers[key] = (error.code, error.message, kind, name)
        records += self._configs.clear_elr_records(records)
        return list(answers.values()), records


def _check_names(names: list[str]) -> None:
    if len(set(names)) != len(names):
        raise InvalidRequest("Error due to duplicate config keys")


def _check_nulls(names: list[str]) -> None:
    if names:
        raise InvalidRequest(f"Null value not supported for : {', '.join(names)}")
