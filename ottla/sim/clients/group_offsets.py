"""OffsetCommit and OffsetFetch at every version, each told to the `Ledger`; and an auditor that looks at the offsets of
all groups again and again, as monitoring does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.errors import UnstableOffsetCommit, error_class
from ottla.sim.clients.client import Client, Topic
from ottla.sim.clients.link import LOST
from ottla.sim.clients.membership import ClassicMembership, Membership
from ottla.sim.history import Violation
from ottla.sim.ledger import SOURCE, Ledger
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

_COMMIT, _FETCH = 8, 9
CONSUMER_PROTOCOL_VERSION = 9
"""OffsetCommit from here on may come from members of the consumer protocol."""
GROUPS_VERSION = 8
STABLE_VERSION = 7
CODES_VERSION = 2

OnRefused = Callable[[str, int], None]


async def commit_offsets(
    client: Client, ledger: Ledger, member: Membership, offsets: Mapping[int, int], *, on_refused: OnRefused
) -> list[int]:
    """Commit once; the partitions whose offsets are stored. One of `LOST` when it is not known what came of it."""
    await client.link()
    is_classic = isinstance(member, ClassicMembership)
    version = client.version_of(_COMMIT, first=0 if is_classic else CONSUMER_PROTOCOL_VERSION)
    topic = OffsetCommitRequestTopic(
        SOURCE,
        member.topic.id,
        [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
            for index, offset in offsets.items()
        ],
    )
    request = OffsetCommitRequest(
        group_id=member.group, generation_id_or_member_epoch=member.epoch, member_id=member.member_id, topics=[topic]
    )
    ledger.on_commit_sent(member.group, offsets)
    try:
        response: OffsetCommitResponse = await client.ask(request, version)
    except LOST:
        ledger.on_commit_lost(member.group, offsets)
        raise
    stored: list[int] = []
    for one in (one for answer in response.topics for one in answer.partitions):
        told = {one.partition_index: offsets[one.partition_index]}
        if not one.error_code:
            client.history.count("offsets committed")
            stored.append(one.partition_index)
            ledger.on_commit_acknowledged(member.group, told)
        elif error_class(one.error_code).retriable:
            ledger.on_commit_lost(member.group, told)  # what could not be written may be in the log all the same
        else:
            ledger.on_commit_refused(member.group, told)
    for code in sorted({one.error_code for answer in response.topics for one in answer.partitions} - {0}):
        on_refused("OffsetCommit", code)
    return stored


async def fetch_offsets(
    client: Client,
    ledger: Ledger,
    group: str,
    topic: Topic,
    indexes: Iterable[int],
    *,
    is_stable: bool,
    member: tuple[str, int] | None = None,
    on_refused: OnRefused,
) -> dict[int, int]:
    """The committed offsets of a group, of the partitions for which there is an answer now."""
    await client.link()
    version = client.version_of(_FETCH, first=STABLE_VERSION if is_stable else CODES_VERSION)
    wanted = list(indexes)
    request = OffsetFetchRequest()
    if version >= GROUPS_VERSION:
        asked = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(SOURCE, topic.id, wanted)])
        if member is not None:
            asked.member_id, asked.member_epoch = member
        request.groups = [asked]
    else:
        request.group_id = group
        request.topics = [OffsetFetchRequestTopic(SOURCE, wanted)]
    if version >= STABLE_VERSION:
        request.require_stable = is_stable
    before = ledger.before_fetch(group)
    response: OffsetFetchResponse = await client.ask(request, version)
    answer = response.groups[0] if version >= GROUPS_VERSION else response
    if answer.error_code:
        on_refused("OffsetFetch", answer.error_code)
        return {}
    found: dict[int, int] = {}
    for one in (one for told in answer.topics for one in told.partitions):
        if one.error_code:
            on_refused("OffsetFetch", one.error_code)
            continue
        ledger.on_offset_fetched(client.name, group, one.partition_index, one.committed_offset, before)
        found[one.partition_index] = one.committed_offset
    return found


class Auditor(Client):
    """Looks at the committed offsets of every group, until told to stop and all were seen once more."""

    ledger: Ledger

    async def work(self) -> None:
        while SOURCE not in (topics := await self.topics([SOURCE])):
            await self.pause()
        source = topics[SOURCE]
        while True:
            is_last = self.is_stopping
            for group in self.ledger.groups:
                await self._audit(group, source, is_thorough=is_last)
            if is_last:
                return
            await self.pause(self.chance.uniform(1, 10))

    async def _audit(self, group: str, source: Topic, *, is_thorough: bool) -> None:
        missing = list(range(source.partition_count))
        while missing:
            try:
                found = await fetch_offsets(
                    self, self.ledger, group, source, missing, is_stable=True, on_refused=self._on_refused
                )
            except LOST:
                found = {}
            missing = [index for index in missing if index not in found]
            if missing and not is_thorough:
                return
            if missing:
                await self.pause()

    def _on_refused(self, what: str, code: int) -> None:
        error = error_class(code)
        self.history.count(f"auditor: {error.name}")
        if not error.retriable or (error is UnstableOffsetCommit and self.ledger.transactional_groups == []):
            raise Violation(f"{self.name}: {what} is answered with {error.name}")
