"""Users that log in with SCRAM: describe their credentials, set and delete them (KIP-554).

A password never leaves the client: what is sent is its salted hash, from which it cannot be had back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from ottla.client.admin.driver import Call, Driver, check, failure, names_of
from ottla.client.admin.outcome import Outcomes
from ottla.errors import KafkaError, UnacceptableCredential, UnsupportedSaslMechanism
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from ottla.world import ClientWorld

SALT_BYTES = 20
HASHES = {1: "sha256", 2: "sha512"}


class ScramMechanism(IntEnum):
    """Numbered as the protocol does."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @classmethod
    def _missing_(cls, value: object) -> ScramMechanism:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo:
    """That a user has a credential of a mechanism, and how costly it is to try passwords on."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class SetScramPassword:
    """Give a user a password, new or in the place of the one it has. A salt that is not given is made."""

    user: str
    mechanism: ScramMechanism
    password: str | bytes = field(repr=False)
    iterations: int = 4096
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DeleteScramPassword:
    """Take a user's credential of one mechanism away."""

    user: str
    mechanism: ScramMechanism


ScramChange = SetScramPassword | DeleteScramPassword


async def describe_user_scram_credentials(
    driver: Driver, users: Iterable[str] | None, *, timeout: float | None
) -> Outcomes[str, tuple[ScramCredentialInfo, ...]]:
    """Of all users when none are named, which is why this waits before it returns outcomes."""
    named = None if users is None else names_of(users)
    request = DescribeUserScramCredentialsRequest(
        users=None if named is None else [UserName(name=user) for user in named]
    )

    def read(response: DescribeUserScramCredentialsResponse) -> DescribeUserScramCredentialsResponse:
        check(response.error_code, response.error_message)
        return response

    what = "DescribeUserScramCredentials"
    response = await driver.one(what, driver.any_or_active(), request, read, driver.deadline(timeout))
    outcomes: Outcomes[str, tuple[ScramCredentialInfo, ...]] = Outcomes(
        driver.world.tasks, what, [one.user for one in response.results]
    )
    for one in response.results:
        infos = tuple(
            ScramCredentialInfo(ScramMechanism(each.mechanism), each.iterations) for each in one.credential_infos
        )
        outcomes.settle(one.user, failure(one.error_code, one.error_message) or infos)
    return outcomes


def alter_user_scram_credentials(
    driver: Driver, changes: Iterable[ScramChange], *, timeout: float | None
) -> Outcomes[str, None]:
    by_user: dict[str, list[ScramChange]] = {}
    for change in changes:
        by_user.setdefault(change.user, []).append(change)
    deadline = driver.deadline(timeout)
    upsertions: dict[str, list[ScramCredentialUpsertion]] = {user: [] for user in by_user}

    def build(node_id: int, keys: list[str]) -> AlterUserScramCredentialsRequest:
        return AlterUserScramCredentialsRequest(
            deletions=[
                ScramCredentialDeletion(name=change.user, mechanism=change.mechanism)
                for key in keys
                for change in by_user[key]
                if isinstance(change, DeleteScramPassword)
            ],
            upsertions=[one for key in keys for one in upsertions[key]],
        )

    def read(
        node_id: int, keys: list[str], response: AlterUserScramCredentialsResponse
    ) -> Iterable[tuple[str, KafkaError | None]]:
        for one in response.results:
            yield one.user, failure(one.error_code, one.error_message)

    call: Call[str, None] = Call("AlterUserScramCredentials", driver.controller(), build, read)

    async def work(outcomes: Outcomes[str, None]) -> None:
        for user, wanted in by_user.items():
            wrong = next((error for error in map(_wrong, wanted) if error is not None), None)
            if wrong is not None:
                outcomes.settle(user, wrong)
                continue
            for change in wanted:
                if isinstance(change, SetScramPassword):
                    upsertions[user].append(await _upsertion(driver.world, change))
        await driver.pursue(call, outcomes, deadline)

    return driver.start(call.what, by_user, work)


def _wrong(change: ScramChange) -> KafkaError | None:
    if not change.user:
        return UnacceptableCredential("Username must not be empty")
    if change.mechanism not in HASHES:
        return UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    if isinstance(change, SetScramPassword) and not change.password:
        return UnacceptableCredential("Password must not be empty")
    return None


async def _upsertion(world: ClientWorld, change: SetScramPassword) -> ScramCredentialUpsertion:
    salt = world.random.randbytes(SALT_BYTES) if change.salt is None else change.salt
    password = change.password.encode() if isinstance(change.password, str) else change.password

    def salted() -> bytes:  # thousands of hashes: not on the thread that answers everybody else
        return hashlib.pbkdf2_hmac(HASHES[change.mechanism], password, salt, change.iterations)

    return ScramCredentialUpsertion(
        name=change.user,
        mechanism=change.mechanism,
        iterations=change.iterations,
        salt=salt,
        salted_password=await world.tasks.in_thread(salted),
    )
