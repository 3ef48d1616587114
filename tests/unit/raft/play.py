"""One node's core, played by hand: the commands of `tests/transcripts/raft`, over a log that is only in memory."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from ottla.errors import KafkaError, error_class
from ottla.raft import RaftConfig, ReplicaKey, SnapshotId, VoterNode, VoterSet
from ottla.raft import messages as made
from ottla.raft.core import Core
from ottla.raft.events import (
    Appended,
    AppendFetched,
    BeginEpoch,
    DropSnapshot,
    Event,
    Flushed,
    FlushLog,
    InstallSnapshot,
    LogChange,
    Persist,
    ReadRecords,
    Ready,
    Received,
    RequestFailed,
    Resign,
    Responded,
    Send,
    ShutDown,
    Started,
    StartSnapshot,
    Tick,
    Truncate,
    WriteElection,
    WriteSnapshot,
    Written,
)
from ottla.raft.log_view import EpochEnd
from ottla.raft.quorum_state import Election
from ottla.raft.states import NEVER, Candidate, Follower, Leader, Prospective, Resigned, Unattached
from ottla.types import ZERO_UUID, Uuid
from ottla.wire import Message
from ottla.wire.data.control import VotersRecord
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from ottla.wire.messages.fetch import EpochEndOffset, FetchRequest
from ottla.wire.messages.fetch import SnapshotId as FetchedId
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.wire.messages.fetch_snapshot import SnapshotId as AskedId
from ottla.wire.messages.vote import VoteRequest
from ottla.world import Address

DIRECTORIES = {"": ZERO_UUID, "A": Uuid(b"a" * 16), "B": Uuid(b"b" * 16)}
LISTENER = "CONTROLLER"
CLUSTER = "cluster"
RECORDS = re.compile(r"(\d+)\.\.(\d+)@(\d+)")


class MemoryLog:
    """A log that has epochs and ends and no records."""

    def __init__(self, voters: VoterSet) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.flushed_offset = 0
        self.epochs: list[tuple[int, int]] = []
        self.voters = voters
        self.voters_offset: int | None = None
        self.kraft_version = 0
        self.snapshots: dict[SnapshotId, int] = {}

    @property
    def last_epoch(self) -> int:
        if self.epochs:
            return self.epochs[-1][0]
        return self.latest_snapshot_id.epoch if self.latest_snapshot_id else 0

    @property
    def earliest_snapshot_id(self) -> SnapshotId | None:
        return min(self.snapshots, default=None)

    @property
    def latest_snapshot_id(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    def snapshot_size(self, id: SnapshotId) -> int | None:
        return self.snapshots.get(id)

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        above = bisect_right([one for one, _ in self.epochs], epoch)
        if above == len(self.epochs):
            return EpochEnd(self.last_epoch, self.end_offset)
        if above == 0:
            earliest = self.earliest_snapshot_id
            if earliest is not None and earliest.offset == self.epochs[0][1]:
                return EpochEnd(earliest.epoch, earliest.offset)
            return EpochEnd(epoch, self.epochs[0][1])
        return EpochEnd(self.epochs[above - 1][0], self.epochs[above][1])

    def append(self, end_offset: int, epoch: int) -> None:
        if epoch != self.last_epoch or not self.epochs:
            self.epochs.append((epoch, self.end_offset))
        self.end_offset = end_offset

    def truncate_to(self, offset: int) -> None:
        self.end_offset = min(offset, self.end_offset)
        self.flushed_offset = min(offset, self.flushed_offset)
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < offset]

    def begin_at(self, id: SnapshotId) -> None:
        self.snapshots = {id: self.snapshots.get(id, 1)}
        self.start_offset = self.end_offset = self.flushed_offset = id.offset
        self.epochs = []


class Play:
    """The core of node 1 with directory A. Time stands still until a command moves it; `draw` gives the middle."""

    def __init__(self) -> None:
        self.core: Core
        self.log: MemoryLog
        self.now_ms = 0.0
        self.sent: dict[int, Send] = {}
        """The last request to each node, until it is answered."""

    def execute(self, command: str) -> list[str]:
        name, *words = command.split()
        given = {word.partition("=")[0]: word.partition("=")[2] if "=" in word else "yes" for word in words}
        try:
            lines = list(getattr(self, f"do_{name.replace('-', '_')}")(given, *words))
        except (KafkaError, AssertionError) as error:
            # The first line: pytest explains assertions of a package that brings it a plugin, as ours does.
            return [f"{type(error).__name__}: {error}".splitlines()[0]]
        return [*lines, self.show_state()]

    def step(self, event: Event) -> Iterator[str]:
        """Step, show what is to be done and do it to the log."""
        ready = self.core.step(event, self.now_ms)
        yield from self.show_ready(ready)
        for effect in ready.persist:
            self.persist(effect)
        for send in ready.requests:
            self.sent[send.node_id] = send
        if any(isinstance(effect, LogChange) for effect in ready.persist):
            yield from self.step(Written())

    def persist(self, effect: Persist) -> None:
        log = self.log
        match effect:
            case BeginEpoch(epoch, records):
                log.append(log.end_offset + len(records), epoch)
                for record in records:
                    if isinstance(record, VotersRecord):
                        log.voters, log.voters_offset = VoterSet.from_record(record), log.end_offset - 1
            case AppendFetched(records, _, is_durable):
                for _, end, epoch in RECORDS.findall(bytes(records).decode()):
                    log.append(int(end), int(epoch))
                if is_durable:
                    log.flushed_offset = log.end_offset
            case Truncate(offset):
                log.truncate_to(offset)
            case FlushLog():
                log.flushed_offset = log.end_offset
            case InstallSnapshot(id):
                log.begin_at(id)

    # Commands: the life of the node

    def do_open(self, given: dict[str, str], *_: str) -> list[str]:
        """`voters=1:A`, `listed=log` (or `format`, `settings`), `kraft=1`, `end=`, `last_epoch=`, `log=3@1,9@4` (ends
        and epochs), `flushed=`, `snapshots=5@1`, `leader=`, `voted=`, `epoch=`, `port=`, `bootstrap`, `broker`: what
        the settings, the log and `quorum-state` say."""
        kraft_version = int(given.get("kraft", 0))
        log = self.log = MemoryLog(
            VoterSet.of(
                VoterNode(self.key(text), self.listeners(text), kraft_version_max=kraft_version)
                for text in given.get("voters", "1").split(",")
                if text
            )
        )
        log.kraft_version = kraft_version
        log.voters_offset = {"log": 3, "format": -1, "settings": None}[given.get("listed", "settings")]
        for text in given.get("snapshots", "").split(","):
            if text:
                id = SnapshotId(*map(int, text.split("@")))
                log.snapshots[id] = 100
                log.start_offset = log.end_offset = min(log.snapshots).offset
        for text in given.get("log", "").split(","):
            if text:
                end, epoch = map(int, text.split("@"))
                log.append(end, epoch)
        if "end" in given:
            log.append(int(given["end"]), int(given.get("last_epoch", 0)))
        elif "last_epoch" in given:
            log.epochs.append((int(given["last_epoch"]), 0))
        log.flushed_offset = int(given.get("flushed", log.end_offset))
        election = None
        if "epoch" in given:
            voted = self.key(given["voted"]) if "voted" in given else None
            election = Election(int(given["epoch"]), int(given.get("leader", -1)), voted)
        self.now_ms = 0
        self.sent.clear()
        is_broker = "broker" in given
        listeners = {} if is_broker else {LISTENER: Address("host", int(given.get("port", 9001)))}
        self.core = Core(
            VoterNode(ReplicaKey(1, DIRECTORIES["A"]), listeners, kraft_version_max=kraft_version),
            log,
            RaftConfig(),
            cluster_id=CLUSTER,
            listener=LISTENER,
            draw=lambda n: n // 2,
            bootstrap=[Address("boot", 1), Address("boot", 2)] if "bootstrap" in given else [],
            election=election,
            can_become_voter=not is_broker,
        )
        return []

    def key(self, text: str) -> ReplicaKey:
        id, _, directory = text.partition(":")
        return ReplicaKey(int(id), DIRECTORIES[directory])

    def listeners(self, text: str) -> dict[str, Address]:
        return {LISTENER: Address("host", 9000 + self.key(text).id)}

    def do_start(self, _: dict[str, str], *__: str) -> Iterator[str]:
        return self.step(Started())

    def do_at(self, _: dict[str, str], ms: str) -> Iterator[str]:
        self.now_ms = float(ms)
        return self.step(Tick())

    def do_appended(self, _: dict[str, str], end_offset: str) -> Iterator[str]:
        assert self.core.is_leader, "only a leader appends"
        self.log.append(int(end_offset), self.core.epoch)
        return self.step(Appended())

    def do_flushed(self, _: dict[str, str], end_offset: str) -> Iterator[str]:
        self.log.flushed_offset = int(end_offset)
        return self.step(Flushed(int(end_offset)))

    def do_resign(self, *_: Any) -> Iterator[str]:
        return self.step(Resign())

    def do_shutdown(self, *_: Any) -> Iterator[str]:
        return self.step(ShutDown())

    # Commands: requests of others

    def receive(self, request: Message, version: int) -> Iterator[str]:
        return self.step(Received("it", request, version, LISTENER))

    def do_vote(self, given: dict[str, str], *_: str) -> Iterator[str]:
        """`from=2:B epoch= last=offset@epoch pre to=1:A cluster=`"""
        offset, epoch = map(int, given.get("last", "0@0").split("@"))
        request: Any = made.vote_request(
            given.get("cluster", CLUSTER),
            int(given["epoch"]),
            self.key(given["from"]),
            self.key(given.get("to", "1")),
            last_epoch=epoch,
            end_offset=offset,
            is_pre_vote="pre" in given,
        )
        return self.receive(request, 2)

    def do_begin(self, given: dict[str, str], *_: str) -> Iterator[str]:
        """`from=2 epoch= to=1:A nowhere`"""
        leader = self.key(given["from"])
        listeners = {} if "nowhere" in given else self.listeners(given["from"])
        to = self.key(given.get("to", "1"))
        request = made.begin_quorum_epoch_request(
            given.get("cluster", CLUSTER), int(given["epoch"]), leader.id, listeners, to
        )
        return self.receive(request, 1)

    def do_end(self, given: dict[str, str], *_: str) -> Iterator[str]:
        """`from=2 epoch= successors=3,1:A`"""
        successors = [self.key(text) for text in given.get("successors", "").split(",") if text]
        request = made.end_quorum_epoch_request(
            given.get("cluster", CLUSTER), int(given["epoch"]), self.key(given["from"]).id, successors
        )
        return self.receive(request, 1)

    def do_fetch(self, given: dict[str, str], *_: str) -> Iterator[str]:
        """`from=2:B epoch= at=offset@epoch hw= wait=`"""
        offset, epoch = map(int, given["at"].split("@"))
        request: Any = made.fetch_request(
            given.get("cluster", CLUSTER),
            int(given["epoch"]),
            self.key(given["from"]),
            offset=offset,
            last_epoch=epoch,
            high_watermark=int(given.get("hw", -1)),
            bytes_max=1000,
        )
        request.max_wait_ms = int(given.get("wait", 500))
        return self.receive(request, 18)

    def do_fetch_snapshot(self, given: dict[str, str], *_: str) -> Iterator[str]:
        """`from=2 epoch= id=offset@epoch position=`"""
        id = SnapshotId(*map(int, given["id"].split("@")))
        position = int(given.get("position", 0))
        request = made.fetch_snapshot_request(
            CLUSTER, int(given["epoch"]), self.key(given["from"]), id, position=position, bytes_max=60
        )
        return self.receive(request, 1)

    # Commands: answers of others

    def do_answer(self, given: dict[str, str], node: str, *_: str) -> Iterator[str]:
        """`2 granted epoch= leader= error=CODE` answers what was sent to node 2, in the epoch of the request.

        To Fetch: `records=5..8@3 hw= diverging=5@1 snapshot=9@2`. To FetchSnapshot: `id=9@2 position= bytes= size=`.
        `top=CODE` is an error of the whole."""
        send = self.sent.pop(int(node))
        if "top" in given:
            return self.step(Responded(send.request_id, made.error_response(send.request, int(given["top"]))))
        code = int(given.get("error", 0))
        return self.step(Responded(send.request_id, self.response(send, given, code)))

    def response(self, send: Send, given: dict[str, str], code: int) -> Message:
        request: Any = send.request
        asked = made.only_partition(request)
        leader = int(given["leader"]) if "leader" in given else None
        match request:
            case VoteRequest():
                now = (-1 if leader is None else leader, int(given.get("epoch", asked.replica_epoch)), None)
                return made.vote_response(now, code, version=2, is_granted="granted" in given)
            case BeginQuorumEpochRequest():
                now = (1 if leader is None else leader, int(given.get("epoch", asked.leader_epoch)), None)
                return made.begin_quorum_epoch_response(now, code, version=1)
            case EndQuorumEpochRequest():
                now = (1 if leader is None else leader, int(given.get("epoch", asked.leader_epoch)), None)
                return made.end_quorum_epoch_response(now, code, version=1)
        now = (send.node_id if leader is None else leader, int(given.get("epoch", asked.current_leader_epoch)), None)
        if isinstance(request, FetchRequest):
            response, partition = made.fetch_response(
                now, code, version=18, high_watermark=int(given.get("hw", -1)), log_start_offset=0
            )
            if "records" in given:
                partition.records = given["records"].encode()
            if "diverging" in given:
                offset, epoch = map(int, given["diverging"].split("@"))
                partition.diverging_epoch = EpochEndOffset(epoch, offset)
            if "snapshot" in given:
                partition.snapshot_id = FetchedId(*map(int, given["snapshot"].split("@")))
            return response
        assert isinstance(request, FetchSnapshotRequest), request
        found, part = made.fetch_snapshot_response(now, code, version=1)
        if "id" in given:
            part.snapshot_id = AskedId(*map(int, given["id"].split("@")))
            part.position = int(given.get("position", 0))
            part.size = int(given["size"])
            part.unaligned_records = bytes(int(given["bytes"]))
        return found

    def do_fail(self, given: dict[str, str], node: str, *_: str) -> Iterator[str]:
        """`2`, `2 unsupported` or `2 refused`: no answer will come."""
        request_id = self.sent.pop(int(node)).request_id
        return self.step(RequestFailed(request_id, "unsupported" in given, "refused" in given))

    # Showing

    def show_ready(self, ready: Ready) -> Iterator[str]:
        for effect in ready.persist:
            yield self.show_effect(effect)
        for answer in ready.answers:
            yield f"answer {self.show_response(answer.response)}{self.show_read(answer.read)}"
        for send in ready.requests:
            at = f"{send.address.host}:{send.address.port}"
            yield f"send to {send.node_id} at {at}: {self.show_request(send.request)}"
        if ready.high_watermark is not None:
            yield f"commit below {ready.high_watermark}"
        if ready.resigned is not None:
            yield f"tell resigned epoch={ready.resigned}"
        if ready.led is not None:
            yield f"tell leader epoch={ready.led.epoch} from={ready.led.start_offset}"
        for note in ready.notes:
            yield f"note {note}"
        if ready.fault is not None:
            yield f"fault {ready.fault}"
        if ready.deadline_ms != NEVER:
            yield f"tick at {ready.deadline_ms:g}"

    def show_effect(self, effect: Persist) -> str:
        match effect:
            case WriteElection(election):
                voted = "nobody" if election.voted is None else f"{election.voted.id}"
                return f"write epoch={election.epoch} leader={election.leader_id} voted={voted}"
            case BeginEpoch(epoch, records):
                return f"begin epoch={epoch} with {', '.join(type(record).__name__ for record in records)}"
            case AppendFetched(records, epoch, is_durable):
                how = "durably" if is_durable else "without a sync"
                return f"append {bytes(records).decode()} of epoch {epoch} {how}"
            case Truncate(offset):
                return f"truncate to {offset}"
            case FlushLog():
                return "flush the log"
            case StartSnapshot(id):
                return f"begin snapshot {id.offset}@{id.epoch}"
            case WriteSnapshot(data):
                return f"write {len(data)} bytes of the snapshot"
            case InstallSnapshot(id):
                return f"install snapshot {id.offset}@{id.epoch}"
            case DropSnapshot():
                return "drop the snapshot"

    def show_request(self, request: Any) -> str:
        one = made.only_partition(request)
        match request:
            case VoteRequest():
                kind = "pre-vote" if one.pre_vote else "vote"
                return f"{kind} epoch={one.replica_epoch} log={one.last_offset}@{one.last_offset_epoch}"
            case BeginQuorumEpochRequest():
                return f"begin epoch={one.leader_epoch} leader={one.leader_id}"
            case EndQuorumEpochRequest():
                return f"end epoch={one.leader_epoch} successors={one.preferred_successors}"
            case FetchRequest():
                at = f"{one.fetch_offset}@{one.last_fetched_epoch}"
                return f"fetch epoch={one.current_leader_epoch} at={at} hw={one.high_watermark}"
            case _:
                id = f"{one.snapshot_id.end_offset}@{one.snapshot_id.epoch}"
                return f"fetch-snapshot epoch={one.current_leader_epoch} id={id} position={one.position}"

    def show_response(self, response: Any) -> str:
        name = type(response).__name__.removesuffix("Response")
        if response.error_code:
            return f"{name} {error_class(response.error_code).__name__}"
        one = made.only_partition(response)
        leader = getattr(one, "current_leader", None) or one
        text = f"{name} epoch={leader.leader_epoch} leader={leader.leader_id}"
        if response.node_endpoints:
            [node] = response.node_endpoints
            text += f" at {node.host}:{node.port}"
        if one.error_code:
            return f"{text} {error_class(one.error_code).__name__}"
        if name == "Vote":
            text += " granted" if one.vote_granted else " rejected"
        if name == "Fetch":
            text += f" hw={one.high_watermark}"
            if one.diverging_epoch is not None:
                text += f" diverging={one.diverging_epoch.end_offset}@{one.diverging_epoch.epoch}"
            if one.snapshot_id is not None:
                text += f" snapshot={one.snapshot_id.end_offset}@{one.snapshot_id.epoch}"
        if name == "FetchSnapshot":
            text += f" size={one.size} position={one.position}"
        return text

    def show_read(self, read: Any) -> str:
        if read is None:
            return ""
        if isinstance(read, ReadRecords):
            return f" with records from {read.offset}"
        return f" with up to {read.bytes_max} bytes"

    def show_state(self) -> str:
        state = self.core.state
        match state:
            case Leader():
                text = f"high_watermark={state.high_watermark}"
            case Follower() | Unattached() | Prospective():
                text = f"leader={state.leader_id} voted={'nobody' if state.voted is None else state.voted.id}"
                if isinstance(state, Follower):
                    text += f" log={self.log.end_offset}@{self.log.last_epoch}"
            case Candidate() | Resigned():
                text = ""
        return f"-- {type(state).__name__} epoch={state.epoch} {text}".rstrip()
