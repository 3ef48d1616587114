"""Quotas of clients: how much a user, a client id or an address may produce, fetch, ask or connect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from ottla.client.admin.driver import Call, Driver, check, failure
from ottla.client.admin.outcome import Outcomes
from ottla.errors import KafkaError
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


class QuotaEntity(NamedTuple):
    """Who a quota holds for: a user, a client id, a user with a client id, or an address.

    Names by type, sorted by type; None is everybody of that type who has no quota of their own.
    """

    entries: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, entries: Mapping[str, str | None]) -> QuotaEntity:
        """`QuotaEntity.of({"user": "alice", "client-id": None})`; the third type is `ip`."""
        return cls(tuple(sorted(entries.items())))

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name if name is not None else '<default>'}" for kind, name in self.entries)


class AnyName(Enum):
    """In a filter: every entity of the type, named or default."""

    ANY = 2


ANY_NAME = AnyName.ANY
QuotaFilter = Mapping[str, str | AnyName | None]
"""Which entities: by type a name, None for the default, or `ANY_NAME`. An empty one is every entity."""
Quotas = dict[str, float]
"""The limits of one entity by their names, such as `producer_byte_rate`."""


async def describe_client_quotas(
    driver: Driver, filter: QuotaFilter, *, strict: bool, timeout: float | None
) -> dict[QuotaEntity, Quotas]:
    components = []
    for kind, name in filter.items():
        if isinstance(name, AnyName):
            components.append(ComponentData(entity_type=kind, match_type=2, match=None))
        else:
            components.append(ComponentData(entity_type=kind, match_type=int(name is None), match=name))

    def read(response: DescribeClientQuotasResponse) -> dict[QuotaEntity, Quotas]:
        check(response.error_code, response.error_message)
        return {
            QuotaEntity.of({one.entity_type: one.entity_name for one in entry.entity}): {
                one.key: one.value for one in entry.values
            }
            for entry in response.entries or ()
        }

    request = DescribeClientQuotasRequest(components=components, strict=strict)
    return await driver.one("DescribeClientQuotas", driver.any_node(), request, read, driver.deadline(timeout))


def alter_client_quotas(
    driver: Driver,
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
    *,
    validate_only: bool,
    timeout: float | None,
) -> Outcomes[QuotaEntity, None]:
    def build(node_id: int, keys: list[QuotaEntity]) -> AlterClientQuotasRequest:
        return AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequestEntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in key.entries],
                    ops=[
                        OpData(key=name, value=0.0 if value is None else value, remove=value is None)
                        for name, value in changes[key].items()
                    ],
                )
                for key in keys
            ],
            validate_only=validate_only,
        )

    def read(
        node_id: int, keys: list[QuotaEntity], response: AlterClientQuotasResponse
    ) -> Iterable[tuple[QuotaEntity, KafkaError | None]]:
        for entry in response.entries:
            key = QuotaEntity.of({one.entity_type: one.entity_name for one in entry.entity})
            yield key, failure(entry.error_code, entry.error_message)

    call: Call[QuotaEntity, None] = Call("AlterClientQuotas", driver.controller(), build, read)
    return driver.drive(call, changes, timeout)
