"""The voters of the quorum: who may vote, and where each is reached (KIP-595, KIP-853).

A voter is a node id and, from `kraft.version` 1 on, the id of its metadata directory: a node that lost its disk is
another voter. With `kraft.version` 0 the voters stand in the settings (`controller.quorum.voters`) and nothing about
them is in the log; with 1 they are control records in the log and its snapshots, and the settings are not asked.

Called by `core`, `metadata_log` and `format`. Values, all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from ottla.types import ZERO_UUID, Uuid
from ottla.wire.data.control import Endpoint as EndpointData
from ottla.wire.data.control import KRaftVersionFeature, VotersRecord, VotersRecordVoter
from ottla.world import Address

KRAFT_VERSION_MAX = 1
"""The newest `kraft.version` that this node speaks."""

T = TypeVar("T")


class ReplicaKey(NamedTuple):
    """A replica of the metadata log: its node and its directory, which is the zero id where it is not known."""

    id: int
    directory_id: Uuid = ZERO_UUID

    def is_same(self, other: ReplicaKey) -> bool:
        """Whether `other` is this replica. Without a directory id here, any directory of the node is."""
        return self.id == other.id and self.directory_id in (ZERO_UUID, other.directory_id)


class VoterNode(NamedTuple):
    """One voter: its key, its controller listeners by name, and the `kraft.version`s that it speaks."""

    key: ReplicaKey
    listeners: Mapping[str, Address] = MappingProxyType({})
    kraft_version_min: int = 0
    kraft_version_max: int = KRAFT_VERSION_MAX


class VoterSet(NamedTuple):
    """The voters, by node id and in its order."""

    nodes: Mapping[int, VoterNode]

    @classmethod
    def of(cls, nodes: Iterable[VoterNode]) -> VoterSet:
        return cls({node.key.id: node for node in sorted(nodes, key=lambda node: node.key.id)})

    @classmethod
    def static(cls, listener: str, addresses: Mapping[int, Address]) -> VoterSet:
        """The voters of `controller.quorum.voters`, reached on the first controller listener."""
        return cls.of(
            VoterNode(ReplicaKey(id), {listener: address}, kraft_version_max=0) for id, address in addresses.items()
        )

    @classmethod
    def standalone(cls, node_id: int, directory_id: Uuid, listeners: Mapping[str, Address]) -> VoterSet:
        """The one voter that `storage format --standalone` makes."""
        return cls.of([VoterNode(ReplicaKey(node_id, directory_id), dict(listeners))])

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def ids(self) -> list[int]:
        return list(self.nodes)

    def is_voter(self, key: ReplicaKey) -> bool:
        node = self.nodes.get(key.id)
        return node is not None and node.key.is_same(key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self.nodes) == 1 and self.is_voter(key)

    def needs_update(self, node: VoterNode) -> bool:
        """Whether this set has the voter, but not as it is now."""
        return self.is_voter(node.key) and self.nodes[node.key.id] != node

    def with_voter(self, node: VoterNode) -> VoterSet:
        """The set with a voter as it is now."""
        assert self.is_voter(node.key), f"{node.key} is none of the voters {self.ids}"
        return VoterSet({**self.nodes, node.key.id: node})

    # As a control record

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        return cls.of(
            VoterNode(
                ReplicaKey(voter.voter_id, voter.voter_directory_id),
                {endpoint.name: Address(endpoint.host, endpoint.port) for endpoint in voter.endpoints},
                voter.k_raft_version_feature.min_supported_version,
                voter.k_raft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                VotersRecordVoter(
                    voter_id=node.key.id,
                    voter_directory_id=node.key.directory_id,
                    endpoints=[
                        EndpointData(name=name, host=address.host, port=address.port)
                        for name, address in node.listeners.items()
                    ],
                    k_raft_version_feature=KRaftVersionFeature(
                        min_supported_version=node.kraft_version_min, max_supported_version=node.kraft_version_max
                    ),
                )
                for node in self.nodes.values()
            ],
        )


EMPTY_VOTERS = VoterSet({})
"""Nobody: where neither the settings nor the log name a voter yet."""


class History(Generic[T]):
    """A value that control records change: what it was at which offset, from the latest snapshot on."""

    __slots__ = ("_offsets", "_values")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._values: list[T] = []

    def add(self, offset: int, value: T) -> None:
        """The value from `offset` on. One at the same offset is replaced: a snapshot says both first and last."""
        if self._offsets and self._offsets[-1] == offset:
            self._values[-1] = value
            return
        assert not self._offsets or self._offsets[-1] < offset, f"{offset} follows {self._offsets[-1]}"
        self._offsets.append(offset)
        self._values.append(value)

    @property
    def latest(self) -> T | None:
        return self._values[-1] if self._values else None

    @property
    def latest_offset(self) -> int | None:
        """Where the latest value was set: -1 for the snapshot that a format made, None when there is no value."""
        return self._offsets[-1] if self._offsets else None

    def at(self, offset: int) -> T | None:
        """The value at `offset`: the last one set at or before it."""
        place = bisect_right(self._offsets, offset) - 1
        return self._values[place] if place >= 0 else None

    def forget_before(self, offset: int) -> None:
        """A snapshot covers everything below `offset`: only the value there is still wanted."""
        place = bisect_right(self._offsets, offset) - 1
        if place > 0:
            del self._offsets[:place], self._values[:place]

    def truncate_to(self, offset: int) -> None:
        """The log lost everything at and above `offset`."""
        place = bisect_left(self._offsets, offset)
        del self._offsets[place:], self._values[place:]
