"""`Pipeline`: the groups of a run, their workers who come and go, and those who look at what comes of it.

Called by `run`, which lends its hosts and clients; choices come from the `Random` that is given.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

from ottla.sim.clients import Auditor, Client, Producer, SinkReader, Worker
from ottla.sim.history import History
from ottla.sim.ledger import SINK, SOURCE, Ledger
from ottla.sim.scenario import GroupPlan, Scenario

_C = TypeVar("_C", bound=Client)

BATCHES_MAX = 60
"""What one producer sends: little, because it is copied, committed and read again and again."""


class Hosts(Protocol):
    """Where clients live."""

    clients: list[Client]

    def add(self, kind: type[_C], name: str) -> _C:
        """A client on a host of its own, not begun yet."""

    def remove(self, client: Client) -> None:
        """A client dies."""


class Pipeline:
    """See the module."""

    def __init__(
        self,
        scenario: Scenario,
        hosts: Hosts,
        history: History,
        trace: Callable[[str], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._scenario = scenario
        self._hosts = hosts
        self._history = history
        self._trace = trace
        self.ledger = Ledger(now_ms)
        self._posts: dict[str, tuple[GroupPlan, str]] = {}
        """The group and the place of every worker there was, by its name."""

    def make(self, producers: list[Producer], chance: Random) -> None:
        """Set producers to work on the source, and make everybody else."""
        (source_count,) = (topic.partition_count for topic in self._scenario.topics if topic.name == SOURCE)
        for producer in producers:
            producer.topic_names, producer.batches_max = [SOURCE], BATCHES_MAX
            producer.interval_ms, producer.is_steady = self._scenario.duration_ms / BATCHES_MAX, True
            producer.acks, producer.is_idempotent = -1, True
        self._history.judged_elsewhere.add(SINK)
        for plan in self._scenario.groups:
            self.ledger.add_group(plan.name, source_count, is_transactional=plan.is_transactional)
            for number in range(plan.worker_count):
                self._add_worker(plan, f"{plan.name} worker{number}", chance)
        self.add_observers("reader", "auditor", chance)

    def add_observers(self, reader_name: str, auditor_name: str, chance: Random) -> list[Client]:
        """One who reads the sink, and one who looks at the offsets of all groups."""
        reader = self._hosts.add(SinkReader, reader_name)
        reader.ledger = self.ledger
        reader.ends = self.consumed()
        reader.partition_max_bytes = chance.choice((1, 300, 1 << 16))
        auditor = self._hosts.add(Auditor, auditor_name)
        auditor.ledger = self.ledger
        return [reader, auditor]

    def consumed(self) -> dict[int, int]:
        """How far all groups have consumed each partition of the source: to its end, once the workers are done."""
        return {
            one.index: max(0, min(group[one.index].acknowledged for group in self.ledger.groups.values()))
            for one in self._history.partitions.values()
            if one.topic == SOURCE
        }

    def _add_worker(self, plan: GroupPlan, place: str, chance: Random) -> Worker:
        """A worker in a place of a group: whoever has the place has its transactional id."""
        worker = self._hosts.add(Worker, f"{place} ({len(self._posts)})")
        self._posts[worker.name] = (plan, place)
        worker.ledger = self.ledger
        worker.group = plan.name
        worker.has_consumer_protocol = plan.has_consumer_protocol
        worker.transactional_id = place if plan.is_transactional else None
        worker.has_epoch_bump = chance.random() < 0.6
        worker.transaction_timeout_ms = chance.choice((1_500, 10_000, 30_000))
        worker.abort_chance = chance.choice((0, 0.2, 0.5))
        worker.partition_max_bytes = chance.choice((1, 1, 1_000, 1 << 16))
        worker.max_wait_ms = chance.choice((0, 50, 500))
        return worker

    def strike(self, fault: str, chance: Random) -> None:
        """One worker goes, in one way or another, and another takes its place."""
        present = [
            client
            for client in self._hosts.clients
            if isinstance(client, Worker) and not (client.is_replaced or client.is_leaving or client.is_done)
        ]
        if fault == "worker is replaced":
            present = [worker for worker in present if worker.transactional_id is not None] or present
        if not present:
            return
        worker = chance.choice(present)
        self._trace(f"{worker.name}: {fault}")
        if fault == "worker leaves":
            worker.is_leaving = True
        elif fault == "worker is replaced" and worker.transactional_id is not None:
            worker.is_replaced = True
        else:
            self._hosts.remove(worker)
            self.ledger.on_given_up(worker.name)
            self.ledger.release(worker.group, worker.name)
        self._add_worker(*self._posts[worker.name], chance).start()
