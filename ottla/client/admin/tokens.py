"""Delegation tokens: secrets that stand for a principal for a while; made, prolonged, ended and described (KIP-48)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.admin.driver import Driver, check
from ottla.client.network import Build
from ottla.errors import UnsupportedVersion
from ottla.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

CREATE_TOKEN_KEY = 38


class KafkaPrincipal(NamedTuple):
    """Who somebody is: a type, mostly `User`, and a name."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. `hmac` is the secret: whoever has it can act as the owner."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: KafkaPrincipal
    requester: KafkaPrincipal | None
    renewers: tuple[KafkaPrincipal, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int


async def create_delegation_token(
    driver: Driver,
    *,
    owner: KafkaPrincipal | None,
    renewers: Iterable[KafkaPrincipal],
    max_lifetime_ms: int,
    timeout: float | None,
) -> DelegationToken:
    wanted = tuple(renewers)

    def make(version: int) -> CreateDelegationTokenRequest:
        if owner is not None and version < 3:
            raise UnsupportedVersion("The broker is too old to make tokens for somebody else")
        return CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner.type,
            owner_principal_name=None if owner is None else owner.name,
            renewers=[CreatableRenewers(principal_type=one.type, principal_name=one.name) for one in wanted],
            max_lifetime_ms=max_lifetime_ms,
        )

    def read(response: CreateDelegationTokenResponse) -> DelegationToken:
        check(response.error_code)
        return DelegationToken(
            response.token_id,
            bytes(response.hmac),
            KafkaPrincipal(response.principal_type, response.principal_name),
            _requester(response.token_requester_principal_type, response.token_requester_principal_name),
            wanted,
            response.issue_timestamp_ms,
            response.expiry_timestamp_ms,
            response.max_timestamp_ms,
        )

    request = Build(CREATE_TOKEN_KEY, make)
    return await driver.one("CreateDelegationToken", driver.any_or_active(), request, read, driver.deadline(timeout))


def _requester(kind: str, name: str) -> KafkaPrincipal | None:
    return KafkaPrincipal(kind, name) if kind else None


async def renew_delegation_token(driver: Driver, hmac: bytes, *, period_ms: int, timeout: float | None) -> int:
    def read(response: RenewDelegationTokenResponse) -> int:
        check(response.error_code)
        return response.expiry_timestamp_ms

    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    return await driver.one("RenewDelegationToken", driver.any_or_active(), request, read, driver.deadline(timeout))


async def expire_delegation_token(driver: Driver, hmac: bytes, *, period_ms: int, timeout: float | None) -> int:
    def read(response: ExpireDelegationTokenResponse) -> int:
        check(response.error_code)
        return response.expiry_timestamp_ms

    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    return await driver.one("ExpireDelegationToken", driver.any_or_active(), request, read, driver.deadline(timeout))


async def describe_delegation_tokens(
    driver: Driver, owners: Iterable[KafkaPrincipal] | None, *, timeout: float | None
) -> list[DelegationToken]:
    wanted = None
    if owners is not None:
        wanted = [DescribeDelegationTokenOwner(principal_type=one.type, principal_name=one.name) for one in owners]

    def read(response: DescribeDelegationTokenResponse) -> list[DelegationToken]:
        check(response.error_code)
        return [
            DelegationToken(
                one.token_id,
                bytes(one.hmac),
                KafkaPrincipal(one.principal_type, one.principal_name),
                _requester(one.token_requester_principal_type, one.token_requester_principal_name),
                tuple(KafkaPrincipal(each.principal_type, each.principal_name) for each in one.renewers),
                one.issue_timestamp,
                one.expiry_timestamp,
                one.max_timestamp,
            )
            for one in response.tokens
        ]

    request = DescribeDelegationTokenRequest(owners=wanted)
    return await driver.one("DescribeDelegationToken", driver.any_or_active(), request, read, driver.deadline(timeout))
