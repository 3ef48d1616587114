"""The broker, side by side with a real Kafka 4.3.1: all rows come from one run of both (`rivals.duel`).

Client: librdkafka in a process of its own. A broker's CPU time is what /proc tells of its process, kernel time
included. "Of GB" is of 10^9 bytes of record values. Where no Kafka can be had on this machine, Ottla's figures stand
alone and no ratio is judged.
"""

from __future__ import annotations

from benchmarks import AtLeast, AtMost, Bench, Result, Rival, Unit, benchmark
from benchmarks.rivals.duel import Duel, run
from benchmarks.rivals.job import Measured
from benchmarks.rivals.one_run import OURS, beside, one_run

duel_of = one_run(run)


def busy_client(duel: Duel, scenario: str) -> str:
    """How much of the time the client itself computed: near or above one core it is what limits the rate."""
    shares = {
        name: max(one.client_cpu_s / one.wall_s for one in rounds)
        for (found, name), rounds in duel.runs.items()
        if found == scenario
    }
    return "the client used " + " and ".join(f"{share:.1f} cores with {name}" for name, share in shares.items())


def best_rates(duel: Duel, scenario: str) -> str:
    """The best round of each, beside the median that a row shows."""
    best = duel.best(scenario, bytes_per_s, highest=True)
    return "best rounds: " + " and ".join(f"{rate / 1e6:.0f} MB/s of {name}" for name, rate in best.items())


def best_percentiles(duel: Duel, percent: int) -> str:
    best = duel.best("round-trip", lambda one: one.percentile_s(percent))
    rounds = " and ".join(f"{seconds * 1e6:.0f} µs of {name}" for name, seconds in best.items())
    return f"best rounds: {rounds}; 60 % of our CPU is the interpreter, 34 % the kernel, half of that task switches"


def compressed(bench: Bench, codec: str) -> Result:
    duel = duel_of(bench.quick)
    faults = duel.best(codec, lambda one: one.broker_faults_per_gb)
    note = "new pages touched a GB: " + " and ".join(f"{count:.0f} by {name}" for name, count in faults.items())
    return beside(duel, duel.best(codec, cpu_per_gb), Unit.SECONDS_PER_GB, note)


def cpu_per_gb(one: Measured) -> float:
    return one.broker_cpu_s_per_gb


def cpu_per_record(one: Measured) -> float:
    return one.broker_cpu_s_per_record


def bytes_per_s(one: Measured) -> float:
    return one.bytes_per_s


@benchmark("broker", "time to ready", bar=AtMost(0.12))
def ready(bench: Bench) -> Result:
    """From the start of the process to the first Metadata response that names a broker; best of several."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.ready_s, Unit.SECONDS)


@benchmark("broker", "time to ready, absolute", bar=AtMost(0.35, Unit.SECONDS))
def ready_absolute(bench: Bench) -> Result:
    """The same."""
    return ready.run(bench)


@benchmark("broker", "memory, idle", bar=AtMost(50e6, Unit.BYTES))
def idle(bench: Bench) -> Result:
    """Resident memory two seconds after the start."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.idle_bytes, Unit.BYTES)


@benchmark("broker", "memory, after the load", bar=AtMost(150e6, Unit.BYTES))
def loaded(bench: Bench) -> Result:
    """Resident memory when everything below has run."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.loaded_bytes, Unit.BYTES)


@benchmark("broker", "produce, CPU per GB", bar=AtMost(1.1))
def produce_cpu(bench: Bench) -> Result:
    """1 KiB records, acks=all, 6 partitions, librdkafka's batches."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("produce", cpu_per_gb), Unit.SECONDS_PER_GB)


@benchmark("broker", "produce, beside the limit")
def produce_limit(bench: Bench) -> Result:
    """The same, beside a loop of recv, CRC-32C and write with nothing around it."""
    duel = duel_of(bench.quick)
    ours = duel.best("produce", cpu_per_gb)[OURS]
    return Result(ours, Unit.SECONDS_PER_GB, Rival("bare loop", duel.bare_receive_s_per_gb))


@benchmark("broker", "produce, rate", bar=AtLeast(1.0))
def produce_rate(bench: Bench) -> Result:
    """The same by the wall clock, to the last acknowledgement."""
    duel = duel_of(bench.quick)
    figures = duel.median("produce", bytes_per_s)
    return beside(
        duel, figures, Unit.BYTES_PER_SECOND, f"{busy_client(duel, 'produce')}; {best_rates(duel, 'produce')}"
    )


@benchmark("broker", "produce gzip, CPU per GB", bar=AtMost(1.0))
def produce_gzip_cpu(bench: Bench) -> Result:
    """1 KiB of JSON a record, gzip at level 1, acks=all, 6 partitions; a GB is what it is before compression."""
    return compressed(bench, "gzip")


@benchmark("broker", "produce snappy, CPU per GB", bar=AtMost(1.0))
def produce_snappy_cpu(bench: Bench) -> Result:
    """1 KiB of JSON a record, snappy, acks=all, 6 partitions; a GB is what it is before compression."""
    return compressed(bench, "snappy")


@benchmark("broker", "produce lz4, CPU per GB", bar=AtMost(1.0))
def produce_lz4_cpu(bench: Bench) -> Result:
    """1 KiB of JSON a record, lz4, acks=all, 6 partitions; a GB is what it is before compression."""
    return compressed(bench, "lz4")


@benchmark("broker", "produce zstd, CPU per GB", bar=AtMost(1.0))
def produce_zstd_cpu(bench: Bench) -> Result:
    """1 KiB of JSON a record, zstd, acks=all, 6 partitions; a GB is what it is before compression."""
    return compressed(bench, "zstd")


@benchmark("broker", "consume, CPU per GB", bar=AtMost(1.2))
def consume_cpu(bench: Bench) -> Result:
    """1 KiB records of 6 partitions, from the beginning, in the page cache."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("consume", cpu_per_gb), Unit.SECONDS_PER_GB)


@benchmark("broker", "consume, beside the limit")
def consume_limit(bench: Bench) -> Result:
    """The same, beside a loop of sendfile with nothing around it."""
    duel = duel_of(bench.quick)
    ours = duel.best("consume", cpu_per_gb)[OURS]
    return Result(ours, Unit.SECONDS_PER_GB, Rival("bare loop", duel.bare_send_s_per_gb))


@benchmark("broker", "consume, rate", bar=AtLeast(1.0))
def consume_rate(bench: Bench) -> Result:
    """The same by the wall clock."""
    duel = duel_of(bench.quick)
    figures = duel.median("consume", bytes_per_s)
    return beside(
        duel, figures, Unit.BYTES_PER_SECOND, f"{busy_client(duel, 'consume')}; {best_rates(duel, 'consume')}"
    )


@benchmark("broker", "consume, rate without a client", bar=AtLeast(1.0))
def fetch_rate(bench: Bench) -> Result:
    """The same records, asked for by a loop of fetch requests (1 MiB a partition) that reads batch headers only."""
    duel = duel_of(bench.quick)
    figures = duel.median("fetch", bytes_per_s)
    return beside(duel, figures, Unit.BYTES_PER_SECOND, f"{busy_client(duel, 'fetch')}; {best_rates(duel, 'fetch')}")


@benchmark("broker", "consume, CPU per GB without a client", bar=AtMost(1.2))
def fetch_cpu(bench: Bench) -> Result:
    """The same: what sendfile and its waiting cost where the receiver is never the limit."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("fetch", cpu_per_gb), Unit.SECONDS_PER_GB)


@benchmark("broker", "CPU per 100-byte record")
def small_cpu(bench: Bench) -> Result:
    """acks=all, 6 partitions, large batches."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("small", cpu_per_record), Unit.SECONDS)


@benchmark("broker", "CPU per record in tiny batches", bar=AtMost(1.0))
def tiny_cpu(bench: Bench) -> Result:
    """Batches of ten 100-byte records over 64 partitions, one a request as librdkafka sends them, acks=all."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("tiny", cpu_per_record), Unit.SECONDS)


@benchmark("broker", "CPU per batch of one record")
def single_cpu(bench: Bench) -> Result:
    """The same with one record a batch: what a request costs."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("single", cpu_per_record), Unit.SECONDS)


@benchmark("broker", "CPU per batch of one record, 64 in a request")
def many_cpu(bench: Bench) -> Result:
    """A batch of one 100-byte record for each of 64 partitions in every request, as the Java client sends them."""
    duel = duel_of(bench.quick)
    note = "librdkafka sends no such requests; 79 % of ours is the interpreter, 15 % the writes to the files"
    return beside(duel, duel.best("many", cpu_per_record), Unit.SECONDS, note)


@benchmark("broker", "round trip, p50", bar=AtMost(0.9))
def round_trip_p50(bench: Bench) -> Result:
    """One 100-byte record, acks=all, sent when the one before is acknowledged."""
    duel = duel_of(bench.quick)
    return beside(
        duel, duel.median("round-trip", lambda one: one.percentile_s(50)), Unit.SECONDS, best_percentiles(duel, 50)
    )


@benchmark("broker", "round trip, p99", bar=AtMost(0.9))
def round_trip_p99(bench: Bench) -> Result:
    """The same."""
    duel = duel_of(bench.quick)
    return beside(
        duel, duel.median("round-trip", lambda one: one.percentile_s(99)), Unit.SECONDS, best_percentiles(duel, 99)
    )


@benchmark("broker", "round trip, broker CPU", bar=AtMost(0.9))
def round_trip_cpu(bench: Bench) -> Result:
    """The same."""
    duel = duel_of(bench.quick)
    return beside(duel, duel.best("round-trip", cpu_per_record), Unit.SECONDS)
