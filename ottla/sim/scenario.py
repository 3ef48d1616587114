"""What a seed stands for: the settings of the node, its topics and clients, and what is going to go wrong.

Half of the seeds are about partitions: producers, consumers, an operator. The other half are pipelines: groups of
workers consume what producers write, and some copy it in transactions (`ledger` says what is asked of them).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from ottla.sim.clients.membership import SESSION_TIMEOUT_MS
from ottla.sim.ledger import SINK, SOURCE

PORT = 9092
NODE = "node"

FAULTS = ("reset", "half-open", "silence", "part", "refuse", "kill", "power", "stop", "crash", "disk", "full", "clock")
"""Every kind of trouble; a scenario has some of them."""
MILD_FAULTS = ["clock", "reset"]
FOLLOWED_TOPIC = "followed"
WORKER_FAULTS = ("worker dies", "worker leaves", "worker is replaced")
"""What happens to the workers of a pipeline, besides."""
POWER_FAULTS = ("power", "crash", "disk", "full")
"""Those after which unsynced bytes may be gone: groups and transactions hold nothing then, so a pipeline has them only
where everything is synced."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    name: str
    partition_count: int
    configs: dict[str, str]


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group of workers on the source."""

    name: str
    has_consumer_protocol: bool
    is_transactional: bool
    worker_count: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """All choices of a seed that are made before it runs."""

    seed: int
    duration_ms: int
    is_synced: bool
    """`log.flush.interval.messages=1`: what is acknowledged survives a power loss."""
    settings: dict[str, str]
    topics: list[TopicPlan]
    producer_count: int
    consumer_count: int
    has_operator: bool
    has_stranger: bool
    has_follower: bool
    """A second broker follows one more topic. It must stay in sync, so little goes wrong then."""
    faults: list[str]
    fault_interval_ms: int
    restart_delay_ms: int
    groups: tuple[GroupPlan, ...] = ()
    """Of a pipeline; none otherwise."""
    turn_us_max: int = 0
    """How long the loading of a group may take."""

    def describe(self) -> str:
        """One line for the head of a trace."""
        topics = ", ".join(f"{topic.name}:{topic.partition_count}{topic.configs or ''}" for topic in self.topics)
        return (
            f"seed {self.seed}: {self.duration_ms / 1000:.0f} s, {'synced' if self.is_synced else 'not synced'}, "
            f"topics {topics}; {self.producer_count} producers, {self.consumer_count} consumers"
            f"{', a follower' if self.has_follower else ''}{''.join(f', {group}' for group in self.groups)}; faults "
            f"{', '.join(self.faults) or 'none'} about every {self.fault_interval_ms} ms; {self.settings}"
        )


def make_scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    chance = Random(f"{seed} scenario")
    is_synced = chance.random() < 0.5
    has_follower = chance.random() < 0.2
    topics = [_topic(chance, index) for index in range(chance.choice((1, 1, 2, 3)))]
    scenario = Scenario(
        seed=seed,
        duration_ms=chance.choice((5_000, 15_000, 30_000)),
        is_synced=is_synced,
        settings=_settings(chance, is_synced=is_synced),
        topics=topics,
        producer_count=chance.choice((1, 2, 3)),
        consumer_count=chance.choice((1, 1, 2, 3)),
        has_operator=chance.random() < 0.6,
        has_stranger=chance.random() < 0.3,
        has_follower=has_follower,
        faults=MILD_FAULTS if has_follower else _faults(chance),
        fault_interval_ms=chance.choice((500, 2_000, 6_000)),
        restart_delay_ms=chance.choice((1, 200, 3_000)),
    )
    pipeline_chance = Random(f"{seed} pipeline")
    return _pipeline(scenario, pipeline_chance) if pipeline_chance.random() < 0.5 else scenario


def _pipeline(base: Scenario, chance: Random) -> Scenario:
    """The same trouble for groups and transactions."""
    faults = sorted(chance.sample(FAULTS, chance.choice((0, 1, 2, 4, 6))))
    faults += chance.sample(WORKER_FAULTS, chance.choice((0, 1, 2, 3)))
    is_synced = chance.random() < 0.5 or any(fault in POWER_FAULTS for fault in faults)
    groups = tuple(
        GroupPlan(f"group{number}", chance.random() < 0.5, chance.random() < 0.6, chance.choice((1, 2, 3)))
        for number in range(chance.choice((1, 1, 2)))
    )
    settings = _settings(chance, is_synced=is_synced) | {
        "offsets.topic.num.partitions": chance.choice(("1", "3", "10")),
        "transaction.state.log.num.partitions": chance.choice(("1", "3", "10")),
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "group.initial.rebalance.delay.ms": chance.choice(("0", "200")),
        "group.min.session.timeout.ms": "500",
        "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.heartbeat.interval.ms": "400",
        "group.consumer.min.heartbeat.interval.ms": "100",
    }
    if chance.random() < 0.5:
        # What coordinators load is compacted all the time.
        settings |= {
            "log.roll.ms": "500",
            "log.cleaner.backoff.ms": "200",
            "log.cleaner.min.cleanable.ratio": "0.01",
            "log.cleaner.delete.retention.ms": chance.choice(("0", "86400000")),
        }
    configs = {"segment.ms": "500"} if chance.random() < 0.3 else {}
    return replace(
        base,
        duration_ms=chance.choice((4_000, 8_000, 15_000)),
        is_synced=is_synced,
        settings=settings,
        topics=[TopicPlan(SOURCE, chance.choice((1, 2, 4)), configs), TopicPlan(SINK, chance.choice((1, 3)), configs)],
        producer_count=chance.choice((1, 2)),
        consumer_count=0,
        has_operator=False,
        has_follower=False,
        faults=faults,
        fault_interval_ms=chance.choice((300, 1_000, 3_000)),
        groups=groups,
        turn_us_max=chance.choice((0, 20_000, 1_000_000)),
    )


def _faults(chance: Random) -> list[str]:
    """Some kinds of trouble, now and then none at all."""
    count = chance.choice((0, 1, 2, 4, 6, len(FAULTS)))
    return sorted(chance.sample(FAULTS, count))


def _topic(chance: Random, index: int) -> TopicPlan:
    configs: dict[str, str] = {}
    if chance.random() < 0.2:
        configs["message.timestamp.type"] = "LogAppendTime"
    if chance.random() < 0.2:
        configs["compression.type"] = chance.choice(("gzip", "lz4", "zstd", "uncompressed"))
    if chance.random() < 0.3:
        configs["segment.ms"] = chance.choice(("500", "2000"))
    return TopicPlan(f"topic{index}", chance.choice((1, 2, 4)), configs)


def _settings(chance: Random, *, is_synced: bool) -> dict[str, str]:
    directories = ["/data/a"] if chance.random() < 0.7 else ["/data/a", "/data/b"]
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{NODE}:9093",
        "listeners": f"PLAINTEXT://:{PORT},CONTROLLER://:9093",
        "advertised.listeners": f"PLAINTEXT://{NODE}:{PORT}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": ",".join(directories),
        "offsets.topic.replication.factor": "1",
    }
    if is_synced:
        settings["log.flush.interval.messages"] = "1"
    elif chance.random() < 0.5:
        settings["log.flush.interval.ms"] = "1000"
        settings["log.flush.scheduler.interval.ms"] = "500"
    if chance.random() < 0.5:
        settings["log.flush.offset.checkpoint.interval.ms"] = chance.choice(("200", "2000"))
    if chance.random() < 0.5:
        settings["log.index.interval.bytes"] = chance.choice(("1", "500"))
    if chance.random() < 0.3:
        settings["connections.max.idle.ms"] = "5000"
    if chance.random() < 0.3:
        settings["metadata.log.max.record.bytes.between.snapshots"] = "2000"
    return settings
