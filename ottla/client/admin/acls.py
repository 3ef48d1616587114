"""Access rules: who may do what to which resources, from where. Describe them, create them, delete them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from ottla.client.admin.driver import Call, Driver, check, failure
from ottla.client.admin.operations import AclOperation
from ottla.client.admin.outcome import Outcomes
from ottla.errors import InvalidRequest, KafkaError
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


class ResourceType(IntEnum):
    """What a rule is about, as the protocol numbers it. `ANY` is for filters alone."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @classmethod
    def _missing_(cls, value: object) -> ResourceType:
        return cls.UNKNOWN


class PatternType(IntEnum):
    """How a rule's name is meant. `ANY` and `MATCH` are for filters: every rule, and those that hold for a name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4

    @classmethod
    def _missing_(cls, value: object) -> PatternType:
        return cls.UNKNOWN


class AclPermissionType(IntEnum):
    """What a rule says. One that denies beats all that allow. `ANY` is for filters alone."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3

    @classmethod
    def _missing_(cls, value: object) -> AclPermissionType:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One rule: `principal`, as `User:alice`, may or may not do `operation` from `host` to the resource."""

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermissionType = AclPermissionType.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        what = f"{self.operation.name} of {self.resource_type.name} {self.pattern_type.name} {self.resource_name}"
        return f"{self.permission.name} {self.principal} from {self.host} {what}"

    def is_definite(self) -> bool:
        """Whether it could stand as a rule: it leaves nothing open, as a filter may."""
        return (
            self.resource_type > ResourceType.ANY
            and self.pattern_type > PatternType.MATCH
            and self.operation > AclOperation.ANY
            and self.permission > AclPermissionType.ANY
        )


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """Which rules are meant; what is left out is any."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermissionType = AclPermissionType.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


async def describe_acls(driver: Driver, filter: AclBindingFilter, *, timeout: float | None) -> list[AclBinding]:
    _refuse_unknown(filter)
    request = DescribeAclsRequest(
        resource_type_filter=filter.resource_type,
        resource_name_filter=filter.resource_name,
        pattern_type_filter=filter.pattern_type,
        principal_filter=filter.principal,
        host_filter=filter.host,
        operation=filter.operation,
        permission_type=filter.permission,
    )

    def read(response: DescribeAclsResponse) -> list[AclBinding]:
        check(response.error_code, response.error_message)
        return [
            AclBinding(
                ResourceType(resource.resource_type),
                resource.resource_name,
                one.principal,
                AclOperation(one.operation),
                AclPermissionType(one.permission_type),
                one.host,
                PatternType(resource.pattern_type),
            )
            for resource in response.resources
            for one in resource.acls
        ]

    return await driver.one("DescribeAcls", driver.any_or_active(), request, read, driver.deadline(timeout))


def _refuse_unknown(filter: AclBindingFilter) -> None:
    if 0 in (filter.resource_type, filter.pattern_type, filter.operation, filter.permission):
        raise InvalidRequest(f"A filter cannot ask for what is not known: {filter}")


def create_acls(driver: Driver, acls: Iterable[AclBinding], *, timeout: float | None) -> Outcomes[AclBinding, None]:
    def build(node_id: int, keys: list[AclBinding]) -> CreateAclsRequest:
        return CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=key.resource_type,
                    resource_name=key.resource_name,
                    resource_pattern_type=key.pattern_type,
                    principal=key.principal,
                    host=key.host,
                    operation=key.operation,
                    permission_type=key.permission,
                )
                for key in keys
            ]
        )

    def read(
        node_id: int, keys: list[AclBinding], response: CreateAclsResponse
    ) -> Iterable[tuple[AclBinding, KafkaError | None]]:
        # The answers have no names; they come in the order of the question.
        for key, one in zip(keys, response.results, strict=False):
            yield key, failure(one.error_code, one.error_message)

    call: Call[AclBinding, None] = Call("CreateAcls", driver.any_or_active(), build, read)
    deadline = driver.deadline(timeout)

    async def work(outcomes: Outcomes[AclBinding, None]) -> None:
        for key in list(outcomes):
            if not key.is_definite():
                outcomes.settle(key, InvalidRequest(f"Invalid ACL creation: {key} leaves something open"))
        await driver.pursue(call, outcomes, deadline)

    return driver.start(call.what, acls, work)


def delete_acls(
    driver: Driver, filters: Iterable[AclBindingFilter], *, timeout: float | None
) -> Outcomes[AclBindingFilter, list[AclBinding]]:
    wanted = list(filters)
    for filter in wanted:
        _refuse_unknown(filter)

    def build(node_id: int, keys: list[AclBindingFilter]) -> DeleteAclsRequest:
        return DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=key.resource_type,
                    resource_name_filter=key.resource_name,
                    pattern_type_filter=key.pattern_type,
                    principal_filter=key.principal,
                    host_filter=key.host,
                    operation=key.operation,
                    permission_type=key.permission,
                )
                for key in keys
            ]
        )

    def read(
        node_id: int, keys: list[AclBindingFilter], response: DeleteAclsResponse
    ) -> Iterable[tuple[AclBindingFilter, list[AclBinding] | KafkaError]]:
        for key, one in zip(keys, response.filter_results, strict=False):
            yield key, failure(one.error_code, one.error_message) or _deleted(one)

    return driver.drive(Call("DeleteAcls", driver.any_or_active(), build, read), wanted, timeout)


def _deleted(result: DeleteAclsFilterResult) -> list[AclBinding] | KafkaError:
    for one in result.matching_acls:
        error = failure(one.error_code, one.error_message)
        if error is not None:
            return error
    return [_binding(one) for one in result.matching_acls]


def _binding(told: DeleteAclsMatchingAcl) -> AclBinding:
    return AclBinding(
        ResourceType(told.resource_type),
        told.resource_name,
        told.principal,
        AclOperation(told.operation),
        AclPermissionType(told.permission_type),
        told.host,
        PatternType(told.pattern_type),
    )
