"""kill -9 of the driver, of a worker, of the broker, at every step of a micro-batch: the output is the input, exactly.

A driver in a process of its own copies a topic into another; a proxy in front of the broker kills at a chosen request.
Whatever dies is started again, with the same checkpoint and the same directory, until the query says that it is done.
A few of the steps by default; all of them under OTTLA_SOAK=1.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ottla.client import Admin, Producer, read_topic
from ottla.client.admin import NewTopic
from tests.pipelines.sink.driver import Driver
from tests.pipelines.sink.tripwire import (
    DESCRIBE_PRODUCERS,
    END_TXN,
    INIT_PRODUCER_ID,
    OFFSET_FETCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Seen,
    Tripwire,
)
from tests.support.broker import BrokerProcess
from tests.support.clients import new_topic

pytestmark = pytest.mark.timeout(600)  # a driver may have to be started twice, on a machine that has more to do

IS_SOAK = bool(os.environ.get("OTTLA_SOAK"))
ROW_COUNT = 2000
ROWS_PER_BATCH = 1000
VALUE_SIZE = 4096
"""Large enough for several requests a task, and for half of a task's rows to be sent before the other half is there."""
TRIES_MAX = 6

STEPS = {
    "before the second batch's producer id": (INIT_PRODUCER_ID, 2, False),
    "after the second batch's producer id": (INIT_PRODUCER_ID, 2, True),
    "before the last batch id is known": (OFFSET_FETCH, 2, False),
    "before the first record": (PRODUCE, 1, False),
    "after the first records": (PRODUCE, 1, True),
    "between records": (PRODUCE, 9, False),
    "after more records": (PRODUCE, 11, True),
    "before the tasks are checked": (DESCRIBE_PRODUCERS, 2, False),
    "before the batch id": (TXN_OFFSET_COMMIT, 2, False),
    "between the batch id and the end": (TXN_OFFSET_COMMIT, 2, True),
    "before the end": (END_TXN, 2, False),
    "after the end and before Spark notes it": (END_TXN, 2, True),
}
QUICK = {
    "driver": ["after the end and before Spark notes it"],
    "worker": ["between records"],
    "broker": ["after more records"],
}


def cases(victim: str) -> list[str]:
    if not IS_SOAK:
        return QUICK[victim]
    if victim == "worker":  # which sends records, and nothing else
        return [step for step, (api_key, _, _) in STEPS.items() if api_key == PRODUCE]
    return list(STEPS)


@pytest.fixture(scope="module")
def wire() -> Iterator[Tripwire]:
    with Tripwire() as tripwire:
        yield tripwire


@pytest.fixture(scope="module")
def broker(wire: Tripwire, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("broker")
    with BrokerProcess(directory, settings=wire.broker_settings, port=wire.target_port) as running:
        yield running


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    with Drivers(tmp_path_factory.mktemp("driver") / "driver.log") as kept:
        yield kept


class Drivers:
    """A driver that lives from test to test, and is replaced when it has been killed."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._driver: Driver | None = None

    @property
    def current(self) -> Driver:
        if self._driver is not None and self._driver.process.poll() is not None:
            self._driver.__exit__(None, None, None)
            self._driver = None
        if self._driver is None:
            self._driver = Driver(
                self._log,
                **{
                    "spark.speculation": "true",
                    "spark.speculation.multiplier": "1.1",
                    "spark.speculation.quantile": "0.5",
                    "spark.speculation.interval": "500ms",
                    "spark.speculation.minTaskRuntime": "2s",
                },
            )
        return self._driver

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def __enter__(self) -> Drivers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._driver is not None:
            self._driver.__exit__(None, None, None)


class Copy:
    """One query: its topics, its checkpoint, and how it went."""

    def __init__(self, wire: Tripwire, drivers: Drivers, directory: Path, trips: str | None = None) -> None:
        self.address = wire.address
        self.drivers = drivers
        self.source, self.target = new_topic("input"), new_topic("output")
        self.answers: list[str] = []
        self._query = {
            "address": wire.address,
            "source": self.source,
            "target": self.target,
            "checkpoint": str(directory / self.target),
            "per_trigger": ROWS_PER_BATCH,
            "trips": trips,
        }
        with Admin(bootstrap_servers=wire.address) as admin:
            admin.create_topics([NewTopic(self.source, 3, 1), NewTopic(self.target, 2, 1)]).all()
        padding = "x" * VALUE_SIZE
        rows = pa.record_batch(
            {
                "key": pa.array([f"k{number % 50}".encode() for number in range(ROW_COUNT)]),
                "value": pa.array([f"{number}-{padding}".encode() for number in range(ROW_COUNT)]),
            }
        )
        with Producer(bootstrap_servers=wire.address) as producer:
            producer.send_arrow(self.source, rows).result()

    def run(self) -> None:
        """Until it is done, however often it has to be begun again."""
        while not self.answers or self.answers[-1] != "done":
            assert len(self.answers) < TRIES_MAX, f"{self.answers}\n{self.drivers.log_tail()}"
            self.answers.append(self.drivers.current.run(**self._query))

    def check(self) -> None:
        """The output has every record of the input once, each key's in their order and in one partition."""
        source = numbers(self.address, self.source)
        target = numbers(self.address, self.target)
        assert Counter(number for _, _, number in target) == Counter(range(ROW_COUNT)), self.answers
        assert by_key(target) == by_key(source)
        assert all(len({place for place, one, _ in target if one == key}) == 1 for key in by_key(target))


def numbers(address: str, topic: str) -> list[tuple[int, bytes, int]]:
    """A topic's records as a read_committed reader sees them: partition, key and number."""
    table = read_topic(address, topic, isolation_level="read_committed")
    columns = (table.column(name).to_pylist() for name in ("partition", "key", "value"))
    return [(place, key, int(value.partition(b"-")[0])) for place, key, value in zip(*columns, strict=True)]


def by_key(records: list[tuple[int, bytes, int]]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for _, key, number in records:
        found.setdefault(key, []).append(number)
    return found


@pytest.mark.parametrize("step", cases("worker"))
def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    step: str, wire: Tripwire, broker: BrokerProcess, drivers: Drivers, tmp_path: Path
) -> None:
    copy = Copy(wire, drivers, tmp_path)
    api_key, nth, is_after = STEPS[step]

    def kill(seen: Seen) -> None:
        os.kill(seen.client_pid(), signal.SIGKILL)

    wire.arm(api_key, nth, kill, is_after=is_after)
    copy.run()
    assert wire.is_pulled.is_set()
    assert copy.answers == ["done"], "Spark tries the task again, and that is enough"
    copy.check()


def test_tasks_that_fail_half_way_are_completed_by_their_next_attempt(
    wire: Tripwire, broker: BrokerProcess, drivers: Drivers, tmp_path: Path
) -> None:
    """Every task of every micro-batch fails once, after half of its rows were sent."""
    copy = Copy(wire, drivers, tmp_path, trips="fail")
    copy.run()
    assert copy.answers == ["done"]
    copy.check()


@pytest.mark.skipif(not IS_SOAK, reason="speculative tasks take their time: OTTLA_SOAK=1")
def test_a_speculative_copy_of_a_slow_task_loses_and_doubles_nothing(
    wire: Tripwire, broker: BrokerProcess, drivers: Drivers, tmp_path: Path
) -> None:
    copy = Copy(wire, drivers, tmp_path, trips="sleep")
    copy.run()
    copy.check()


@pytest.mark.parametrize("step", cases("broker"))
def test_a_broker_that_is_killed_loses_and_doubles_nothing(
    step: str, wire: Tripwire, broker: BrokerProcess, drivers: Drivers, tmp_path: Path
) -> None:
    copy = Copy(wire, drivers, tmp_path)
    api_key, nth, is_after = STEPS[step]

    def kill(seen: Seen) -> None:
        broker.kill()
        broker.port = wire.target_port  # it has taken the address that it advertises for its own
        threading.Thread(target=broker.start, daemon=True).start()

    wire.arm(api_key, nth, kill, is_after=is_after)
    copy.run()
    assert wire.is_pulled.is_set()
    copy.check()


@pytest.mark.parametrize("step", cases("driver"))
def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    step: str, wire: Tripwire, broker: BrokerProcess, drivers: Drivers, tmp_path: Path
) -> None:
    copy = Copy(wire, drivers, tmp_path)
    api_key, nth, is_after = STEPS[step]
    victim = drivers.current

    def kill(seen: Seen) -> None:
        victim.kill()
        victim.process.wait()

    wire.arm(api_key, nth, kill, is_after=is_after)
    copy.run()
    assert wire.is_pulled.is_set()
    assert copy.answers == ["killed", "done"]
    copy.check()
