"""`make run`: a broker, a generator of words, and their windowed count on Spark, printed as it changes.

    python -m ottla.pipelines.demo            # on localhost:9092, until Ctrl-C

The broker is `ottla up`, a process of its own; sentences go to the topic `words`; Spark counts the words of each ten
seconds and writes what has changed to the topic `word-counts`, and a consumer of that topic prints it. Where Spark is
not installed or no Java is to be had it says so, and the broker runs alone. Ctrl-C ends the query, Spark and the
broker, in this order.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from types import FrameType

import click

from ottla.client import Consumer, Producer, TopicPartition
from ottla.pipelines.errors import MissingDependency
from ottla.pipelines.java import cache_dir, find_java
from ottla.pipelines.spark import defaults, require_spark, session
from ottla.pipelines.streams import StreamsBuilder, TimeWindows, Topology

WORDS, COUNTS = "words", "word-counts"
PARTITIONS = 2
WINDOW_MS = 10_000
GRACE_MS = 10_000
"""How much later than the window's end a sentence may come and still be counted."""
EVERY = "2 seconds"
PAUSE_S = 0.1
SHOWN_MAX = 8
READY_S = 60.0
END_S = 30.0
POLL_S = 0.5
STDERR = 2
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
QUICK_START = "-XX:TieredStopAtLevel=1"
"""Without the compiler whose work pays off after minutes: the first counts come sooner, and these few words need no
more."""
GIVES_UP_SOON = {"request.timeout.ms": 3000, "delivery.timeout.ms": 5000}
"""A sentence that the broker does not take is no loss, and should it be gone, nobody waits for it."""
VOCABULARY = ("broker", "log", "topic", "offset", "leader", "replica", "batch", "record", "stream", "table", "window")


@click.command()
@click.option("--port", default=9092, show_default=True, help="Port of the broker; 0 chooses a free one.")
@click.option(
    "--data", type=click.Path(file_okay=False), help="The broker's directory [default: the user's data home]."
)
@click.option("--seconds", type=float, help="End by itself after this time.")
def main(port: int, data: str | None, seconds: float | None) -> None:
    """A broker, a generator of words, and their windowed count on Spark."""
    signal.signal(signal.SIGTERM, _interrupt)
    with ExitStack() as running:
        try:
            broker, address = running.enter_context(_broker(port, data))
            missing = _missing()
            if missing is not None:
                click.echo(f"No word count: {missing}. The broker runs alone; Ctrl-C ends it.")
                _wait(broker, seconds)
            else:
                _count_words(running, broker, address, seconds)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough: what runs is being ended
            click.echo("Ending.")


def _missing() -> MissingDependency | None:
    try:
        require_spark()
        find_java()
    except MissingDependency as missing:
        return missing
    return None


@contextmanager
def _broker(port: int, data: str | None) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """`ottla up`, and the address that it is ready at."""
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as directory:
        ready = Path(directory, "ready")
        command = [sys.executable, "-m", "ottla.cli.main", "up", "--port", str(port), "--ready-file", str(ready)]
        for topic in (WORDS, COUNTS):
            command += ["--topic", f"{topic}:{PARTITIONS}"]
        if data is not None:
            command += ["--data", data]
        # A session of its own: Ctrl-C is for this process, which ends the broker last.
        broker = subprocess.Popen(command, start_new_session=True)
        try:
            deadline = time.monotonic() + READY_S
            while not ready.exists():
                if broker.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(broker.poll() or 1)  # it has said why
                time.sleep(0.02)
            yield broker, ready.read_text(encoding="ascii").strip()
        finally:
            broker.terminate()
            try:
                broker.wait(END_S)
            except subprocess.TimeoutExpired:
                broker.kill()
                broker.wait()


def _count_words(running: ExitStack, broker: subprocess.Popen[bytes], address: str, seconds: float | None) -> None:
    click.echo(
        f"Sentences go to the topic {WORDS}, counts for each {WINDOW_MS // 1000} s to {COUNTS}. Spark is starting."
    )
    running.enter_context(_generator(address))
    log = cache_dir() / "demo-spark.log"
    with _errors_to(log):
        java_options = f"{defaults('local[*]').get(JAVA_OPTIONS, '')} {QUICK_START}"
        spark = session(
            "ottla-word-count", conf={"spark.sql.shuffle.partitions": PARTITIONS, JAVA_OPTIONS: java_options}
        )
    running.callback(spark.stop)
    checkpoint = running.enter_context(tempfile.TemporaryDirectory(prefix="ottla-demo-checkpoint-"))
    printed: Consumer[bytes, bytes] = Consumer(
        bootstrap_servers=address, auto_offset_reset="latest", isolation_level="read_committed"
    )
    with printed as consumer:
        consumer.assign([TopicPartition(COUNTS, partition) for partition in range(PARTITIONS)])
        ends = consumer.end_offsets([TopicPartition(WORDS, partition) for partition in range(PARTITIONS)])
        from_now_on = {WORDS: {str(one.partition): offset for one, offset in ends.items()}}
        started = word_count().start(
            spark, address, checkpoint=checkpoint, interval=EVERY, source={"startingOffsets": json.dumps(from_now_on)}
        )
        running.callback(started.stop)
        deadline = None if seconds is None else time.monotonic() + seconds
        while started.is_active and broker.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                return
            records = consumer.poll(POLL_S)
            _print([json.loads(record.value) for record in records if record.value is not None])
    if (code := broker.poll()) is not None:
        raise SystemExit(f"The broker has ended, with {code}, and so does the word count.")
    for name, query in started.queries.items():
        if (failure := query.exception()) is not None:
            raise SystemExit(f"{name} has failed: {str(failure).splitlines()[0]}\nWhat Spark said is in {log}.")


def word_count() -> Topology:
    """The windowed word count: each change of a window's count goes to the topic of counts, as JSON."""
    builder = StreamsBuilder()
    words = builder.stream(WORDS).flat_map_values("split(value, ' ')").group_by("value")
    counts = words.windowed_by(TimeWindows.of_size(WINDOW_MS, grace=GRACE_MS)).count()
    row = "to_json(named_struct('start', key.start, 'word', key.key, 'count', value))"
    counts.to_stream().map("key.key", row).to(COUNTS)
    return builder.build("ottla-word-count")


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """What is started meanwhile has its standard error there: Spark and its workers say much that nobody asked for."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(STDERR)
    try:
        with open(log, "wb") as file:
            os.dup2(file.fileno(), STDERR)
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)


@contextmanager
def _generator(address: str) -> Iterator[None]:
    """A thread that writes sentences; some words come more often than others, and which ones changes slowly."""
    is_over = threading.Event()

    def generate() -> None:
        chance = random.Random()
        with Producer({"bootstrap.servers": address, **GIVES_UP_SOON}) as producer:
            while not is_over.wait(PAUSE_S):
                favourite = int(time.time() / 15) % len(VOCABULARY)
                weights = [6 if place == favourite else 1 for place in range(len(VOCABULARY))]
                producer.send(WORDS, " ".join(chance.choices(VOCABULARY, weights, k=5)).encode())

    thread = threading.Thread(target=generate, name="generator", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(END_S)


def _print(rows: list[dict[str, int | str]]) -> None:
    """A line for each window, with the words whose count has changed, the most frequent first."""
    windows: dict[int, dict[str, int]] = {}
    for row in rows:
        windows.setdefault(int(row["start"]), {})[str(row["word"])] = int(row["count"])
    for began, counts in sorted(windows.items()):
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        shown = "  ".join(f"{word} {count}" for word, count in ordered[:SHOWN_MAX])
        more = f"  and {len(ordered) - SHOWN_MAX} more" if len(ordered) > SHOWN_MAX else ""
        click.echo(f"{datetime.fromtimestamp(began / 1000).astimezone():%H:%M:%S}  {shown}{more}")


def _wait(broker: subprocess.Popen[bytes], seconds: float | None) -> None:
    try:
        code = broker.wait(seconds)
    except subprocess.TimeoutExpired:
        return
    raise SystemExit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
