"""One run of both brokers side by side: each scenario on one, then on the other, in turns.

Promises: both brokers run all the time, on the same disk, with the same settings; before anything is measured both get
the same load, so that Kafka's compiler has settled; who goes first changes every round; CPU time is that of the best
round of each, what the wall clock tells that of the median round. Where the machine has no Java, no Maven or no
registry, Ottla runs alone and `Duel.no_rival` says why.

`python -m benchmarks.rivals.duel [SCENARIO ...]` prints the figures of some scenarios, for work on one of them.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import Bench, opened
from benchmarks.rivals.bare import receive_check_write, send_file
from benchmarks.rivals.job import Job, Measured, load
from benchmarks.rivals.one_run import OURS
from benchmarks.rivals.server import Kind, Server, kafka_kind, ottla_kind

KIB = 1024
PARTITION_COUNT = 6
TINY_PARTITION_COUNT = 64
TINY_BATCH_RECORDS = 10
CODECS = ("gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    starts: int = 12
    kafka_starts: int = 2
    rounds: int = 5
    latency_rounds: int = 40
    """Of the round trips, in short turns: a tail is what a busy neighbour of the machine disturbs most."""
    warm_up_rounds: int = 1
    """They do not count: each scenario has code of its own for Kafka's compiler."""
    idle_s: float = 2.0
    warm_up_records: int = 2_000_000
    records: int = 1_000_000
    compressed_records: int = 300_000
    """Less, because a client needs several times the broker's CPU to compress."""
    small_records: int = 4_000_000
    tiny_records: int = 300_000
    single_records: int = 60_000
    round_trips: int = 4_000
    bare_bytes: int = 1 << 30


QUICK = Sizes(
    starts=0,
    kafka_starts=0,
    rounds=1,
    latency_rounds=1,
    warm_up_rounds=0,
    idle_s=0.0,
    warm_up_records=2_000,
    records=2_000,
    compressed_records=2_000,
    small_records=2_000,
    tiny_records=640,
    single_records=200,
    round_trips=50,
    bare_bytes=1 << 23,
)


@dataclass(slots=True)
class Duel:
    """What was found, by the broker's name. Bare loops are CPU-seconds per GB."""

    no_rival: str = ""
    ready_s: dict[str, float] = field(default_factory=dict)
    idle_bytes: dict[str, int] = field(default_factory=dict)
    loaded_bytes: dict[str, int] = field(default_factory=dict)
    runs: dict[tuple[str, str], list[Measured]] = field(default_factory=dict)
    """By scenario and broker, one a round."""
    bare_receive_s_per_gb: float = 0.0
    bare_send_s_per_gb: float = 0.0

    def median(self, scenario: str, figure: Callable[[Measured], float]) -> dict[str, float]:
        """Each broker's median round by `figure`: for the wall clock, where a lucky round says little."""
        return {
            name: statistics.median(map(figure, rounds))
            for (found, name), rounds in self.runs.items()
            if found == scenario
        }

    def best(self, scenario: str, figure: Callable[[Measured], float], *, highest: bool = False) -> dict[str, float]:
        """Each broker's best round by `figure`."""
        choose = max if highest else min
        return {name: choose(map(figure, rounds)) for name, rounds in self._rounds(scenario)}

    def _rounds(self, scenario: str) -> list[tuple[str, list[Measured]]]:
        return [(name, rounds) for (found, name), rounds in self.runs.items() if found == scenario]


def run(bench: Bench, only: frozenset[str] = frozenset()) -> Duel:
    """Run every scenario, or those named in `only`."""
    sizes = bench.pick(Sizes(), QUICK)
    kinds, no_rival = rivals()
    duel = Duel(no_rival)
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(kind, Path(bench.temp_dir()))) for kind in kinds]
        for server in servers:
            _start(server, duel, sizes)
        _say("warming up")
        for server in servers:
            load(_job("produce", server, "warm-up", sizes.warm_up_records, KIB))
        for name, scenario in SCENARIOS.items():
            if not only or name in only:
                rounds = sizes.latency_rounds if name == "round-trip" else sizes.rounds
                for round_ in range(sizes.warm_up_rounds + rounds):
                    for server in servers if round_ % 2 == 0 else reversed(servers):
                        with ExitStack() as alone:
                            if name == "round-trip":  # a tail shows what the other is still busy with
                                for other in servers:
                                    if other is not server:
                                        alone.enter_context(other.resting())
                            measured = load(scenario(server, round_, sizes))
                        if round_ >= sizes.warm_up_rounds:
                            duel.runs.setdefault((name, server.name), []).append(measured)
                        _say(f"{name:>10} {server.name}: {measured.wall_s:6.2f} s, broker {measured.broker_cpu_s:6.2f} "
                             f"CPU-s, {measured.broker_faults_per_gb:7.0f} faults/GB, "
                             f"client {measured.client_cpu_s:6.2f} CPU-s")  # fmt: skip
        for server in servers:
            duel.loaded_bytes[server.name] = server.resident_bytes
    _say("starts once more")
    for kind in kinds:
        with Server(kind, Path(bench.temp_dir())) as server:
            duel.ready_s[kind.name] = min(duel.ready_s[kind.name], *_starts(server, sizes))
    _say("bare loops")
    directory = Path(bench.temp_dir())
    duel.bare_receive_s_per_gb = min(receive_check_write(directory, sizes.bare_bytes) for _ in range(sizes.rounds))
    duel.bare_send_s_per_gb = min(send_file(directory, sizes.bare_bytes) for _ in range(sizes.rounds))
    return duel


def rivals() -> tuple[list[Kind], str]:
    """Ottla, and Kafka where there is one; otherwise why there is none."""
    try:
        return [ottla_kind(), kafka_kind(_classpath())], ""
    except _NoKafka as reason:
        return [ottla_kind()], str(reason)


def _start(server: Server, duel: Duel, sizes: Sizes) -> None:
    """Start it, measured, and leave it running."""
    duel.ready_s[server.name] = min(_starts(server, sizes))
    time.sleep(sizes.idle_s)
    duel.idle_bytes[server.name] = server.resident_bytes
    _say(
        f"{server.name} is ready in {duel.ready_s[server.name]:.3f} s, "
        f"idle with {duel.idle_bytes[server.name] / 1e6:.0f} MB"
    )


def _starts(server: Server, sizes: Sizes) -> list[float]:
    """Start a few times, the first of which does not count: it reads programs from the disk. The last one stays."""
    starts = []
    for index in range(1 + (sizes.starts if server.name == OURS else sizes.kafka_starts)):
        if index:
            server.stop()
        starts.append(server.start())
    return starts[1:] or starts


def _job(
    kind: str,
    server: Server,
    topic: str,
    record_count: int,
    record_bytes: int,
    *,
    partition_count: int = PARTITION_COUNT,
    settings: dict[str, object] | None = None,
) -> Job:
    return Job(kind, server.address, [server.pid], topic, partition_count, record_count, record_bytes, settings or {})


def _produce(server: Server, round_: int, sizes: Sizes) -> Job:
    return _job("produce", server, f"produce-{round_}", sizes.records, KIB)


def _compressed(codec: str) -> Callable[[Server, int, Sizes], Job]:
    def scenario(server: Server, round_: int, sizes: Sizes) -> Job:
        settings: dict[str, object] = {"compression.type": codec}
        if codec == "gzip":
            settings["compression.level"] = 1  # a third of the client's time, and hardly less work for the broker
        return _job("produce_events", server, f"{codec}-{round_}", sizes.compressed_records, KIB, settings=settings)

    return scenario


def _consume(server: Server, round_: int, sizes: Sizes) -> Job:
    """What was written to warm up: all of it is in the page cache."""
    return _job("consume", server, "warm-up", min(sizes.records, sizes.warm_up_records), KIB)


def _small(server: Server, round_: int, sizes: Sizes) -> Job:
    return _job("produce", server, f"small-{round_}", sizes.small_records, 100)


def _fetch(server: Server, round_: int, sizes: Sizes) -> Job:
    """The same records, without a client."""
    return _job("fetch_frames", server, "warm-up", min(sizes.records, sizes.warm_up_records), KIB)


def _tiny(server: Server, round_: int, sizes: Sizes) -> Job:
    return _tiny_batches(server, f"tiny-{round_}", sizes.tiny_records, TINY_BATCH_RECORDS)


def _single(server: Server, round_: int, sizes: Sizes) -> Job:
    return _tiny_batches(server, f"single-{round_}", sizes.single_records, 1)


def _tiny_batches(server: Server, topic: str, record_count: int, batch_records: int) -> Job:
    """The size of the batches is fixed. Left to the client it would follow from how fast the broker is: the faster one
    would be sent smaller batches, and pay for more of them."""
    settings: dict[str, object] = {"linger.ms": 5, "batch.num.messages": batch_records}
    return _job("produce", server, topic, record_count, 100, partition_count=TINY_PARTITION_COUNT, settings=settings)


def _many(server: Server, round_: int, sizes: Sizes) -> Job:
    return _job("produce_frames", server, f"many-{round_}", sizes.tiny_records, 100,
                partition_count=TINY_PARTITION_COUNT)  # fmt: skip


def _round_trip(server: Server, round_: int, sizes: Sizes) -> Job:
    return _job("round_trip", server, f"round-trip-{round_}", sizes.round_trips, 100, partition_count=1)


SCENARIOS: dict[str, Callable[[Server, int, Sizes], Job]] = {
    "produce": _produce,
    **{codec: _compressed(codec) for codec in CODECS},
    "consume": _consume,
    "fetch": _fetch,
    "small": _small,
    "tiny": _tiny,
    "single": _single,
    "many": _many,
    "round-trip": _round_trip,
}


class _NoKafka(Exception):
    """Why there is none."""


def _classpath() -> str:
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise _NoKafka(f"no Kafka to compare with: `{tool}` is missing")
    import pytest  # the cache of Kafka's jars is the tests'

    from tests.support.kafka import kafka_classpath

    try:
        return kafka_classpath()
    except pytest.skip.Exception as reason:
        raise _NoKafka(f"no Kafka to compare with: {reason}") from None


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _main() -> None:
    with opened(quick=False) as bench:
        duel = run(bench, frozenset(sys.argv[1:]))
    print(f"ready {duel.ready_s}\nidle {duel.idle_bytes}\nloaded {duel.loaded_bytes}")
    print(f"bare receive {duel.bare_receive_s_per_gb:.2f} s/GB, send {duel.bare_send_s_per_gb:.2f} s/GB")
    for scenario in SCENARIOS:
        for name, rounds in [(name, rounds) for (found, name), rounds in duel.runs.items() if found == scenario]:
            best = min(rounds, key=lambda one: one.broker_cpu_s)
            print(f"{scenario:>10} {name}: {best.broker_cpu_s_per_gb:.2f} CPU-s/GB, "
                  f"{best.broker_cpu_s_per_record * 1e6:.2f} µs/record, {best.broker_faults_per_gb:.0f} faults/GB, "
                  f"{max(one.bytes_per_s for one in rounds) / 1e6:.0f} MB/s")  # fmt: skip
            if best.latencies_s:
                print(f"           p50 {best.percentile_s(50) * 1e3:.3f} ms, p99 {best.percentile_s(99) * 1e3:.3f} ms")


if __name__ == "__main__":
    _main()
