"""Groups and transactions, side by side with a real Kafka 4.3.1: all rows come from one run (`rivals.group_duel`).

Members are bare links that speak the protocol (`rivals.members`), because librdkafka has threads for each; transactions
go through librdkafka. `group.initial.rebalance.delay.ms` and `group.consumer.assignment.interval.ms` are 0 for both, or
they would be all that is measured.
"""

from __future__ import annotations

from benchmarks import AtLeast, AtMost, Bench, Result, Unit, benchmark
from benchmarks.rivals.group_duel import run
from benchmarks.rivals.one_run import beside, one_run

duel_of = one_run(run)


@benchmark("groups", "3 members stable, classic", bar=AtMost(1.0))
def classic_stable(bench: Bench) -> Result:
    """A new group until all three are in one generation; the median of 40 groups. Heartbeats every 20 ms."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("classic-stable", lambda one: one.median_s), Unit.SECONDS)


@benchmark("groups", "3 members stable, consumer protocol", bar=AtMost(1.0))
def consumer_stable(bench: Bench) -> Result:
    """The same with the consumer protocol, until all partitions are owned evenly in one epoch."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("consumer-stable", lambda one: one.median_s), Unit.SECONDS)


@benchmark("groups", "100 members rebalance, classic", bar=AtMost(1.0))
def classic_rebalance(bench: Bench) -> Result:
    """A member joins a group of 100 on 500 partitions: until all are in the new generation. Heartbeats every 20 ms."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("classic-rebalance", lambda one: one.median_s), Unit.SECONDS)


@benchmark("groups", "100 members rebalance, consumer protocol", bar=AtMost(1.0))
def consumer_rebalance(bench: Bench) -> Result:
    """The same with the consumer protocol."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("consumer-rebalance", lambda one: one.median_s), Unit.SECONDS)


@benchmark("groups", "1,000 idle groups, CPU", bar=AtMost(1.0))
def idle_cpu(bench: Bench) -> Result:
    """Five members each, a connection and a heartbeat every 3 s each; CPU per heartbeat."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("idle", lambda one: one.broker_cpu_s / one.count), Unit.SECONDS)


@benchmark("groups", "1,000 idle groups, memory", bar=AtMost(0.3))
def idle_memory(bench: Bench) -> Result:
    """Resident memory meanwhile."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("idle", lambda one: one.broker_bytes), Unit.BYTES)


@benchmark("groups", "offset commit, CPU", bar=AtMost(1.0))
def commit_cpu(bench: Bench) -> Result:
    """50 consumers, one partition a commit, each sent when the one before is answered."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("commit", lambda one: one.broker_cpu_s / one.count), Unit.SECONDS)


@benchmark("groups", "offset commits a second")
def commit_rate(bench: Bench) -> Result:
    """The same by the wall clock; the client is a Python process."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("commit", lambda one: one.count / one.wall_s, highest=True), Unit.PER_SECOND)


@benchmark("groups", "transactions of 10 records, a second", bar=AtLeast(1.0))
def transaction_rate(bench: Bench) -> Result:
    """One transactional producer, one transaction after the other."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("transactions", lambda one: one.per_s, highest=True), Unit.PER_SECOND)


@benchmark("groups", "transaction to read_committed, p50", bar=AtMost(1.0))
def transaction_p50(bench: Bench) -> Result:
    """From the begin of a transaction until a read_committed consumer has its last record."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("transactions", lambda one: one.percentile_s(50)), Unit.SECONDS)


@benchmark("groups", "transaction to read_committed, p99", bar=AtMost(1.0))
def transaction_p99(bench: Bench) -> Result:
    """The same."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("transactions", lambda one: one.percentile_s(99)), Unit.SECONDS)


@benchmark("groups", "start with 100,000 committed offsets", bar=AtMost(1.0))
def start(bench: Bench) -> Result:
    """From the start of the process until the offsets of all 1,000 groups have been fetched."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.start_s, Unit.SECONDS)
