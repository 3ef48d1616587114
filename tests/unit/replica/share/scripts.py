"""A share partition, driven by lines of text; `SharePartitionOracle.java` carries out the same with Kafka's own.

    begin <in flight max> <delivery count max> <lock ms> <start offset> [first:last:state:count ...]
    acquire <member> <mode> <batch size> <records max> <fetch offset> <batches of the log: first-last ...>
    acknowledge <member> <first:last:types ...>        release <member>
    advance <ms>                                       log-start <offset>
    store ok|fails|waits                               settle ok|fails

Each prints what was answered, what was stored, and then the whole state: offsets, how many records are done with, and
every batch in flight with its state, member and delivery count.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ottla.coordinator.share import SharePartitionKey, StateBatch, StateSummary, StateUpdate, StoredState
from ottla.errors import CoordinatorNotAvailable, KafkaError
from ottla.replica.share import Acknowledgement, AcquireMode, Limits, SharePartition
from ottla.replica.share.acquisition import acquire
from ottla.replica.share.delivery import RecordState
from ottla.replica.share.span import Span
from ottla.world import Promise
from tests.unit.replica.node import TestNode, topic_id

START_MS = 10
KEY = SharePartitionKey("g", topic_id("t"), 0)


class Store:
    """A persister that keeps nothing: it notes what it is given, and succeeds, fails or waits as the script says."""

    def __init__(self, node: TestNode, stored: StoredState) -> None:
        self._node = node
        self._stored = stored
        self.mode = "ok"
        self.written: list[str] = []
        self.pending: list[Promise[None]] = []

    def read(self, key: SharePartitionKey, *, leader_epoch: int) -> Promise[StoredState]:
        promise: Promise[StoredState] = self._node.world.tasks.promise()
        promise.set_result(self._stored)
        return promise

    def write(self, key: SharePartitionKey, update: StateUpdate) -> Promise[None]:
        self.written += [f"write {one.first_offset}-{one.last_offset}:{one.delivery_state}x{one.delivery_count}"
                         for one in update.batches]  # fmt: skip
        promise: Promise[None] = self._node.world.tasks.promise()
        if self.mode == "waits":
            self.pending.append(promise)
        else:
            _settle(promise, self.mode)
        return promise

    def settle(self, how: str) -> None:
        pending, self.pending = self.pending, []
        for promise in pending:
            _settle(promise, how)

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: int) -> Promise[None]:
        raise AssertionError("nobody begins state here")

    def read_summary(self, key: SharePartitionKey) -> Promise[StateSummary]:
        raise AssertionError("nobody asks for a summary here")

    def delete(self, key: SharePartitionKey) -> Promise[None]:
        raise AssertionError("nobody deletes state here")


def _settle(promise: Promise[None], how: str) -> None:
    if how == "ok":
        promise.set_result(None)
    else:
        promise.set_exception(CoordinatorNotAvailable())


class SharePartitionPlay:
    """See the module."""

    def __init__(self) -> None:
        self.node = TestNode()
        replica = self.node.create_topic("t")
        assert replica is not None
        self._replica = replica
        self.partition: SharePartition
        self.store: Store

    def execute(self, line: str) -> list[str]:
        verb, *words = line.split()
        printed: list[str] = getattr(self, "do_" + verb.replace("-", "_"))(*words) or []
        self.node.run_ms(0)
        written, self.store.written = sorted(self.store.written), []
        return [*printed, *written, self.shown()]

    def do_begin(self, in_flight: str, count: str, lock_ms: str, start_offset: str, *batches: str) -> None:
        found = []
        for batch in batches:
            first, last, state, delivered = (int(part) for part in batch.split(":"))
            found.append(StateBatch(first, last, delivered, state))
        self.store = Store(self.node, StoredState(5, int(start_offset), tuple(found)))
        limits = Limits(int(count), int(in_flight), int(lock_ms))
        self.partition = SharePartition(
            KEY,
            self._replica,
            persister=self.store,
            clock=self.node.world.clock,
            tasks=self.node.world.tasks,
            limits=lambda: limits,
            start_timestamp=lambda: -2,
            on_change=lambda: None,
        )
        self.node.wait(self.partition.initialize())

    def do_acquire(
        self, member: str, mode: str, batch_size: str, records_max: str, fetch_offset: str, *batches: str
    ) -> list[str]:
        spans = []
        for batch in batches:
            first, last = batch.split("-")
            spans.append(Span(int(first), int(last), 0, 0, -1, False, False))
        limits, now_ms = self.partition.limits(), self.node.world.clock.monotonic_ms()
        found = acquire(
            self.partition.window,
            spans,
            member_id=member,
            fetch_offset=int(fetch_offset),
            records_max=int(records_max),
            batch_size=int(batch_size),
            mode=AcquireMode(int(mode)),
            limits=limits,
            now_ms=now_ms,
        )
        self.partition.watch_locks(now_ms + limits.lock_ms)
        return ["acquired" + "".join(f" {one.first_offset}-{one.last_offset}x{one.delivery_count}" for one in found)]

    def do_acknowledge(self, member: str, *batches: str) -> list[str]:
        said = []
        for batch in batches:
            first, last, types = batch.split(":")
            said.append(Acknowledgement(int(first), int(last), [int(one) for one in types.split(",")]))
        return self.answered(lambda: self.partition.acknowledge(member, said))

    def do_release(self, member: str) -> list[str]:
        return self.answered(lambda: self.partition.release(member))

    def answered(self, begin: Callable[[], Promise[None]]) -> list[str]:
        promise = begin()
        self.node.run_ms(0)
        if not promise.done():
            promise.add_done_callback(lambda done: done.exception())  # it is told to nobody
            return ["waits"]
        try:
            promise.result()
        except KafkaError as error:
            return [error.name]
        return ["done"]

    def do_advance(self, ms: str) -> None:
        self.node.run_ms(int(ms))
        self.node.run_ms(0)

    def do_log_start(self, offset: str) -> None:
        self.partition.window.move_to_log_start(int(offset))

    def do_store(self, mode: str) -> None:
        self.store.mode = mode

    def do_settle(self, how: str) -> None:
        self.store.settle(how)

    def shown(self) -> str:
        window = self.partition.window
        batches = ""
        for batch in window.batches:
            each = ",".join(f"{one.state.value}{one.member_id}{one.count}" for _, _, one in batch.parts())
            batches += f" {batch.first_offset}-{batch.last_offset}[{each}]"
        more = str(self.partition.can_acquire).lower()
        return (
            f"start={window.start_offset} end={window.end_offset} next={window.next_fetch_offset()} "
            f"complete={window.complete_count} more={more}{batches}"
        )


class ScriptWriter:
    """Random commands, with an eye to what the play is at, so that most of them have an effect."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.play = SharePartitionPlay()
        self.log: list[tuple[int, int]] = []
        """The batches of the log."""
        self.commands: list[str] = []
        self.printed: list[str] = []

    def do(self, command: str) -> None:
        self.commands.append(command)
        self.printed += [f"> {command}", *self.play.execute(command)]

    def write(self, length: int) -> None:
        random = self.random
        offset = random.choice([0, 0, 7])
        for _ in range(40):
            last = offset + random.choice([0, 2, 4, 9])
            self.log.append((offset, last))
            offset = last + 1 + (random.choice([0, 0, 0, 3]) if random.random() < 0.3 else 0)
        self.begin()
        for _ in range(length):
            self.step()

    def begin(self) -> None:
        random = self.random
        start = offset = random.choice([0, 9, 12])
        stored = []
        for _ in range(random.choice([0, 0, 3, 6])):
            first = offset + random.choice([0, 0, 4])
            last = first + random.randint(0, 6)
            stored.append(f" {first}:{last}:{random.choice([0, 2, 4])}:{random.randint(1, 2)}")
            offset = last + 1
        limits = f"{random.choice([20, 40, 1000])} {random.choice([2, 3, 5, 6])} 1000"
        self.do(f"begin {limits} {start}{''.join(stored)}")

    def step(self) -> None:
        random = self.random
        match random.choices(
            ["acquire", "acknowledge", "release", "advance", "log-start", "store", "settle"],
            [10, 10, 1, 3, 0.5, 1, 1],
        )[0]:
            case "acquire":
                self.acquire()
            case "acknowledge":
                self.acknowledge()
            case "release":
                self.do(f"release {random.choice('mno')}")
            case "advance":
                self.do(f"advance {random.choice([10, 100, 400, 1000])}")
            case "log-start":
                self.log_start()
            case "store":
                self.do(f"store {random.choice(['ok', 'ok', 'fails', 'waits'])}")
            case _:
                self.do("store ok")
                self.do(f"settle {random.choice(['ok', 'fails'])}")

    def acquire(self) -> None:
        random = self.random
        partition = self.play.partition
        if not partition.can_acquire:
            return
        fetch_offset = partition.window.next_fetch_offset()
        found = [batch for batch in self.log if batch[1] >= fetch_offset][: random.randint(1, 6)]
        window = partition.window
        has_room = window.in_flight_count < partition.limits().in_flight_max
        # Kafka 4.3.1 fails where it has no room and what came back is not in the log any more.
        if found and (has_room or found[0][0] <= window.end_offset):
            batches = " ".join(f"{first}-{last}" for first, last in found)
            sizes = f"{random.choice([1, 4, 500])} {random.choice([1, 3, 8, 500])}"
            self.do(f"acquire {random.choice('mno')} {random.choice([0, 0, 1])} {sizes} {fetch_offset} {batches}")

    def acknowledge(self) -> None:
        random = self.random
        owned: dict[str, list[int]] = {}
        for batch in self.play.partition.window.batches:
            for first, last, one in batch.parts():
                if one.state is RecordState.ACQUIRED:
                    owned.setdefault(one.member_id, []).extend(range(first, last + 1))
        if not owned:
            return
        member = random.choice(sorted(owned))
        offsets = owned[member]
        first = random.choice(offsets)
        last = first
        while last + 1 in offsets and random.random() < 0.9:
            last += 1
        if random.random() < 0.1:
            last += random.randint(0, 3)
        if random.random() < 0.1:
            member = random.choice("mno")
        count = last - first + 1
        types = [random.choice([1, 1, 2, 2, 3])]
        if random.random() < 0.4:
            types = [random.choice([0, 1, 1, 2, 3, 4]) for _ in range(count)]
        self.do(f"acknowledge {member} {first}:{last}:{','.join(map(str, types))}")

    def log_start(self) -> None:
        start = self.play.partition.window.start_offset + self.random.randint(1, 9)
        # Kafka 4.3.1 does not move on from a log start between two batches when the one before was split, and goes back
        # from one beyond all that is in flight.
        start = next((max(start, first) for first, last in self.log if last >= start), start)
        if start > self.play.partition.window.end_offset:
            return
        self.log = [batch for batch in self.log if batch[1] >= start]
        self.do(f"log-start {start}")
