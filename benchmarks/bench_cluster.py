"""Three nodes, side by side with three of a real Kafka 4.3.1: all rows come from one run (`rivals.cluster_duel`).

Every node has both roles; settings are Kafka's defaults for both, `broker.session.timeout.ms` with its nine seconds
too. Six processes and a client share the machine's cores: rates are those of a machine that is too small for either.
"""

from __future__ import annotations

from benchmarks import AtLeast, AtMost, Bench, Result, Unit, benchmark
from benchmarks.rivals.cluster_duel import run
from benchmarks.rivals.one_run import beside, one_run

duel_of = one_run(run)


@benchmark("cluster", "three nodes ready from nothing", bar=AtMost(0.2))
def ready(bench: Bench) -> Result:
    """From the start of three formatted nodes until each names all three in a Metadata response; the best of two."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best_s("ready"), Unit.SECONDS)


@benchmark("cluster", "memory of a node, idle", bar=AtMost(0.1))
def memory(bench: Bench) -> Result:
    """Resident memory five seconds after that, the mean of three nodes."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.idle_bytes, Unit.BYTES)


@benchmark("cluster", "produce, factor 3", bar=AtLeast(1.0))
def produce_rate(bench: Bench) -> Result:
    """1 KiB records, acks=all, 6 partitions of three replicas, librdkafka; the median round."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.median("produce", lambda one: one.bytes_per_s), Unit.BYTES_PER_SECOND)


@benchmark("cluster", "produce, factor 3, CPU per GB", bar=AtMost(0.8))
def produce_cpu(bench: Bench) -> Result:
    """The same: CPU of all three nodes; the best round."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("produce", lambda one: one.broker_cpu_s_per_gb), Unit.SECONDS_PER_GB)


@benchmark("cluster", "round trip, factor 3, p50", bar=AtMost(1.0))
def round_trip_p50(bench: Bench) -> Result:
    """One 100-byte record, acks=all, sent when the one before is acknowledged; the median of ten rounds."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.median("round-trip", lambda one: one.percentile_s(50)), Unit.SECONDS)


@benchmark("cluster", "round trip, factor 3, p99", bar=AtMost(1.0))
def round_trip_p99(bench: Bench) -> Result:
    """The same."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.median("round-trip", lambda one: one.percentile_s(99)), Unit.SECONDS)


@benchmark("cluster", "2,000 partitions created", bar=AtMost(1.0))
def created(bench: Bench) -> Result:
    """From CreateTopics until each node tells of 2,000 leaders with three replicas in sync; the best of two."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best_s("create"), Unit.SECONDS)


@benchmark("cluster", "kill -9 of a leader to the next write", bar=AtMost(0.7))
def killed(bench: Bench) -> Result:
    """The longest time without an acknowledgement for a writer to one partition; the median of five."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.median_s("kill"), Unit.SECONDS)


@benchmark("cluster", "controlled shutdown of a leader, longest gap", bar=AtMost(0.5))
def shut_down(bench: Bench) -> Result:
    """The same when the leader is ended by SIGTERM; the median of five."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.median_s("shutdown"), Unit.SECONDS)


@benchmark("cluster", "restart with 5,000 partitions", bar=AtMost(0.5))
def restarted(bench: Bench) -> Result:
    """From the start of a node that was stopped in order until it names itself in a Metadata response; the best."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best_s("restart"), Unit.SECONDS)


@benchmark("cluster", "restart with 5,000 partitions, after kill -9", bar=AtMost(0.5))
def restarted_after_kill(bench: Bench) -> Result:
    """The same after kill -9; a record is in each partition."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best_s("restart after kill"), Unit.SECONDS)
