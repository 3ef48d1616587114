"""What happens to the quorum, and what is to be done about it: the vocabulary between `core` and its driver.

An event goes in, a `Ready` comes out. Its parts are carried out in their order: persist, each to its end and durably
where it says so, then answer and send, then apply. No other event goes in before that.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from ottla.raft.quorum_state import Election
from ottla.raft.snapshot import SnapshotId
from ottla.raft.states import NEVER
from ottla.types import Buffer
from ottla.wire import Message
from ottla.world import Address

# Events


class Started(NamedTuple):
    """The node has opened its log."""


class Tick(NamedTuple):
    """Time has passed."""


class Received(NamedTuple):
    """A request of another node; `token` comes back with the answer, which may be a while."""

    token: object
    request: Message
    version: int
    listener: str
    """The name of the listener that it came in on: the leader's address there is what the other can use."""


class Responded(NamedTuple):
    request_id: int
    response: Message


class RequestFailed(NamedTuple):
    """No answer will come."""

    request_id: int
    is_unsupported: bool = False
    """Whether the other does not know a version that the request could be sent in."""
    is_refused: bool = False
    """Whether the other's host runs and says that nobody listens there."""


class Appended(NamedTuple):
    """The leader has appended to its log."""


class Flushed(NamedTuple):
    """Everything below `end_offset` is on this node's device."""

    end_offset: int


class Written(NamedTuple):
    """What a `Ready` said to do to the log or to a snapshot is done."""

    is_sound: bool = True
    """Whether what the leader had sent was fit to be written."""


class Resign(NamedTuple):
    """Give the leadership up."""


class ShutDown(NamedTuple):
    """Give the leadership up and never stand for election again."""


Event: TypeAlias = (
    Started | Tick | Received | Responded | RequestFailed | Appended | Flushed | Written | Resign | ShutDown
)

# What to persist


class WriteElection(NamedTuple):
    """Replace `quorum-state`, durably."""

    election: Election


class BeginEpoch(NamedTuple):
    """Note in the log that this epoch begins at its end, durably, and append these control records as one batch."""

    epoch: int
    records: tuple[Message, ...]


class AppendFetched(NamedTuple):
    """Append batches as they came from the leader; durably, if this node may vote."""

    records: Buffer
    epoch: int
    is_durable: bool


class Truncate(NamedTuple):
    """Drop everything at and above `offset`."""

    offset: int


class FlushLog(NamedTuple):
    """Make all of the log durable: what a voter says it has must survive a power cut."""


class StartSnapshot(NamedTuple):
    """Begin the file of a snapshot that the leader has."""

    id: SnapshotId


class WriteSnapshot(NamedTuple):
    """Append to that file."""

    data: Buffer


class InstallSnapshot(NamedTuple):
    """The file is whole: make it durable, let it count, and let the log begin again where it ends."""

    id: SnapshotId


class DropSnapshot(NamedTuple):
    """The rest of that file will not come."""


LogChange: TypeAlias = AppendFetched | Truncate | FlushLog | StartSnapshot | WriteSnapshot | InstallSnapshot
"""After one of these the driver says `Written` before anything else."""
Persist: TypeAlias = WriteElection | BeginEpoch | DropSnapshot | LogChange

# What to send


class ReadRecords(NamedTuple):
    """Batches from `offset` on, to go into an answer to Fetch."""

    offset: int
    bytes_max: int


class ReadSnapshot(NamedTuple):
    """Bytes of a snapshot, to go into an answer to FetchSnapshot."""

    id: SnapshotId
    position: int
    bytes_max: int


class Answer(NamedTuple):
    """The response to the request with this token, with what is to be read into it."""

    token: object
    response: Message
    read: ReadRecords | ReadSnapshot | None = None


class Send(NamedTuple):
    """A request to another node; `Responded` or `RequestFailed` with the same id follows."""

    request_id: int
    node_id: int
    """Below -1 for a bootstrap server, whose id is not known."""
    address: Address
    request: Message
    timeout_ms: float


# What to apply


class LedEpoch(NamedTuple):
    """This node leads; each listener is to know once it has been told everything below `start_offset`, and one more."""

    epoch: int
    start_offset: int


class LeaderAndEpoch(NamedTuple):
    """Who leads the newest epoch that this node knows; -1 while none is known."""

    leader_id: int
    epoch: int


class Ready:
    """What is to be done, in this order."""

    __slots__ = (
        "answers", "deadline_ms", "fault", "high_watermark", "leader", "led", "notes", "persist", "requests",
        "resigned",
    )  # fmt: skip

    def __init__(self) -> None:
        self.persist: list[Persist] = []
        self.answers: list[Answer] = []
        self.requests: list[Send] = []
        self.high_watermark: int | None = None
        """Everything below is committed: tell the listeners. None when that has not changed."""
        self.resigned: int | None = None
        """The epoch that this node led and leads no more."""
        self.led: LedEpoch | None = None
        self.leader: LeaderAndEpoch | None = None
        """Who leads now, when that has changed."""
        self.notes: list[str] = []
        """What an operator would want to read of: what others answered that they should not have."""
        self.fault: str | None = None
        """Why this node has to stop: going on would lose what is committed."""
        self.deadline_ms: float = NEVER
        """When to say `Tick`."""
