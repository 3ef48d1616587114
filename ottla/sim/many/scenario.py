"""What a seed stands for in a cluster: its nodes and their roles, topics, clients, and what is going to go wrong.

The rule under which nothing acknowledged by all may be lost: elections are clean, `min.insync.replicas` is 2 of 3, and
power takes unsynced bytes from one node at a time, no other before that one is in sync again, and none that is the only
one in an ISR. Nor does another node end without a word before the controller has noticed: to the controller kill -9 is
as bad as a loss of power, and of replicas that all ended so the last one to register leads (KIP-966). With one node
everything is synced, because there is nobody else who has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from ottla.sim.cluster import layout

RECORDS, SOURCE, SINK = "records", "source", "sink"

NODE_FAULTS = ("kill", "kill minority", "kill all", "power", "stop", "pause", "long pause", "crash", "disk")
"""What ends nodes, or seems to."""
LINK_FAULTS = ("cut", "one way", "mute", "deafen", "partition", "isolate controller", "flap", "slow link", "reset")
SLOW_FAULTS = ("slow disk", "clock", "drift")
LATER_FAULTS = ("stall", "bounce")
"""Drawn by themselves, so that the seeds that were there before keep their course: most have none of these."""
CLUSTER_FAULTS = (*NODE_FAULTS, *LINK_FAULTS, *SLOW_FAULTS, *LATER_FAULTS)
SESSION_MS = 3_000
"""`broker.session.timeout.ms`: short, so that a pause of some seconds is a long one."""


@dataclass(frozen=True, slots=True)
class ClusterScenario:
    """All choices of a seed that are made before it runs."""

    seed: int
    settings: dict[str, dict[str, str]]
    """Of every node, by its name."""
    replication_factor: int
    is_synced: bool
    """`log.flush.interval.messages=1`: then power may go anywhere at any time."""
    partition_count: int
    writer_count: int
    reader_count: int
    has_group: bool
    has_copiers: bool
    has_trimmer: bool
    """Whether somebody deletes records, so that logs begin later and later."""
    faults: tuple[str, ...]
    fault_interval_ms: int
    duration_ms: int
    cpu_us: int
    """What a call of a node may cost at most; 0 for nothing."""
    cpu_stall_chance: float

    def describe(self) -> str:
        """One line for the head of a trace."""
        roles = ", ".join(f"{name}: {own['process.roles']}" for name, own in self.settings.items())
        clients = (("a group", self.has_group), ("copiers", self.has_copiers), ("a trimmer", self.has_trimmer))
        more = [name for name, has in clients if has]
        return (
            f"seed {self.seed}: {roles}; factor {self.replication_factor}, {self.partition_count} partitions, "
            f"{'synced' if self.is_synced else 'not synced'}, {self.cpu_us} us a call; {self.writer_count} writers, "
            f"{', '.join([f'{self.reader_count} readers', *more])}; faults {', '.join(self.faults) or 'none'} "
            f"about every {self.fault_interval_ms} ms for {self.duration_ms} ms"
        )


def make_cluster_scenario(seed: int, node_count: int, *, is_combined: bool = False) -> ClusterScenario:
    """The scenario of a seed for so many brokers; `is_combined` gives every node both roles, whatever the seed says."""
    chance = Random(f"{seed} cluster scenario {node_count}")
    controllers = chance.choice((0, 0, 3)) if node_count > 1 else 0
    if is_combined:
        controllers = 0
    factor = min(3, node_count)
    known = (*NODE_FAULTS, *LINK_FAULTS, *SLOW_FAULTS)
    faults = tuple(sorted(chance.sample(known, chance.choice((0, 1, 3, 6, len(known))))))
    faults = _with_later(faults, Random(f"{seed} further faults {node_count}")) if node_count > 1 else faults
    is_synced = node_count == 1 or chance.random() < 0.3
    return ClusterScenario(
        seed=seed,
        settings=layout(
            node_count, controller_count=controllers, settings=_settings(chance, factor, is_synced=is_synced)
        ),
        replication_factor=factor,
        is_synced=is_synced,
        partition_count=chance.choice((1, 3, 5)),
        writer_count=chance.choice((1, 2, 3)),
        reader_count=chance.choice((1, 2)),
        has_group=chance.random() < 0.5,
        has_copiers=chance.random() < 0.5,
        has_trimmer=Random(f"{seed} trimmer {node_count}").random() < 0.2,  # by itself, as `LATER_FAULTS` are
        faults=faults,
        fault_interval_ms=chance.choice((500, 2_000, 5_000)),
        duration_ms=chance.choice((10_000, 20_000, 40_000)),
        cpu_us=chance.choice((0, 0, 100, 1_000)),
        cpu_stall_chance=chance.choice((0.0, 0.0, 0.001)),
    )


def _with_later(faults: tuple[str, ...], chance: Random) -> tuple[str, ...]:
    match chance.randrange(10):
        case 0:
            return ("bounce",)
        case 1:
            return ("bounce", "stall")
        case 2:
            return tuple(sorted((*faults, *LATER_FAULTS)))
    return faults


def _settings(chance: Random, factor: int, *, is_synced: bool) -> dict[str, str]:
    in_sync = str(min(2, factor))
    settings = {
        "log.dirs": "/data/a" if chance.random() < 0.7 else "/data/a,/data/b",
        "default.replication.factor": str(factor),
        "min.insync.replicas": in_sync,
        "unclean.leader.election.enable": "false",
        "offsets.topic.num.partitions": chance.choice(("1", "3")),
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.num.partitions": chance.choice(("1", "3")),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": in_sync,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        "group.consumer.session.timeout.ms": "3000",
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.heartbeat.interval.ms": "400",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "broker.session.timeout.ms": str(SESSION_MS),
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": chance.choice(("1500", "5000")),
        "replica.fetch.wait.max.ms": chance.choice(("50", "500")),
    }
    if is_synced:
        settings["log.flush.interval.messages"] = "1"
    if chance.random() < 0.3:
        settings["metadata.log.max.record.bytes.between.snapshots"] = "2000"
    return settings
