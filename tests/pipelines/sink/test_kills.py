"""kill -9 of driver, workers and broker at every step of a micro-batch: the output is the input, exactly.

A driver in a process of its own copies a topic into another. A proxy in front of the broker kills at a chosen request,
and a look at the checkpoint kills when Spark writes a chosen note. Whatever dies is started again, with the same
checkpoint and the same directory, until the query says that it is done. A few of the steps by default; all of them
under OTTLA_SOAK=1, and with them series of kills that are drawn by a seed, which OTTLA_SEEDS=100:120 chooses.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from ottla.client import Admin, Producer, TopicPartition, read_topic
from ottla.client.admin import FeatureUpdate, NewTopic, OffsetSpec, UpgradeType
from tests.pipelines.sink.driver import Driver
from tests.pipelines.sink.tripwire import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    DESCRIBE_PRODUCERS,
    END_TXN,
    FETCH,
    INIT_PRODUCER_ID,
    OFFSET_FETCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Seen,
    Tripwire,
    When,
    Wire,
)
from tests.support.broker import BrokerProcess
from tests.support.clients import new_topic

pytestmark = pytest.mark.timeout(600)  # a driver may have to be started twice, on a machine that has more to do

IS_SOAK = bool(os.environ.get("OTTLA_SOAK"))
ROW_COUNT = 2000
ROWS_PER_BATCH = 1000
BEGIN_MS = int(time.time() * 1000) - 3_600_000
"""The time of the first row: not that of writing, and not so long ago that the log would be rid of it."""
VALUE_SIZE = 4096
"""Large enough for several requests a task, and for half of a task's rows to be sent before the other half is there."""
KINDS = {
    "speculating": (True, False),
    "own times": (False, True),
    "plain": (False, False),
    "speculating, own times": (True, True),
}
"""Whether slow tasks are run a second time beside the first, and whether records have the times of their rows."""
TRIES_MAX = 12
LOOK_S = 0.0005


class Request(NamedTuple):
    """A step that shows on the wire."""

    api_key: int
    nth: int
    when: When


class Note(NamedTuple):
    """A step of Spark's own: it writes down what a batch has (`offsets`) and that it is done (`commits`)."""

    kind: str
    batch_id: int
    when: When

    def is_there(self, checkpoint: Path) -> bool:
        directory = checkpoint / self.kind
        if (directory / str(self.batch_id)).exists():
            return True
        return self.when is When.DURING and any(directory.glob(f".{self.batch_id}.*"))  # renamed once it is written


Step = Request | Note
# The second micro-batch's, where it is not of the records: so that one was committed before.
REQUESTS = {
    "the producer id": (INIT_PRODUCER_ID, 2),
    "the last batch's id": (OFFSET_FETCH, 2),
    "the first records": (PRODUCE, 1),
    "more records": (PRODUCE, 9),
    "the check of what the tasks wrote": (DESCRIBE_PRODUCERS, 2),
    "the batch's id": (TXN_OFFSET_COMMIT, 2),
    "the end": (END_TXN, 2),
}
REQUESTS_V1 = {
    "the partitions": (ADD_PARTITIONS, 3),
    "the group": (ADD_OFFSETS, 2),
    "the end": (END_TXN, 2),
}
"""Where `transaction.version` is 1, brokers are told of partitions and groups first, and EndTxn leaves the epoch."""
NOTES = {
    "Spark's note that a batch is done": ("commits", 0),
    "Spark's note of what a batch has": ("offsets", 1),
}


def steps_of(requests: dict[str, tuple[int, int]], notes: dict[str, tuple[str, int]]) -> dict[str, Step]:
    steps: dict[str, Step] = {
        f"{when.value} {name}": Request(api_key, nth, when)
        for name, (api_key, nth) in requests.items()
        for when in When
    }
    for name, (kind, batch_id) in notes.items():
        for when in (When.DURING, When.AFTER):
            steps[f"{when.value} {name}"] = Note(kind, batch_id, when)
    return steps


STEPS = steps_of(REQUESTS, NOTES)
STEPS_V1 = {f"{name}, transactions of version 1": step for name, step in steps_of(REQUESTS_V1, {}).items()}
ALL_STEPS = STEPS | STEPS_V1
QUICK = {
    "driver": ["after the end"],
    "worker": ["before more records"],
    "broker": ["after more records"],
    "every worker": ["before the check of what the tasks wrote"],
}


def cases(victim: str) -> list[str]:
    if not IS_SOAK:
        return QUICK[victim]
    if victim == "worker":  # the process that sends the request
        return [name for name, step in ALL_STEPS.items() if isinstance(step, Request)]
    return list(ALL_STEPS)


def seeds() -> list[int]:
    start, _, end = os.environ.get("OTTLA_SEEDS", "0:12").partition(":")
    return list(range(int(start), int(end or int(start) + 1)))


class Site:
    """A broker behind a tripwire, which comes back after it was killed."""

    def __init__(self, directory: Path, transaction_version: int) -> None:
        self.wire = Tripwire()
        self.broker = BrokerProcess(directory, settings=self.wire.broker_settings, port=self.wire.target_port)
        self._transaction_version = transaction_version
        self._restart: threading.Thread | None = None

    @property
    def address(self) -> str:
        return self.wire.address

    def kill(self) -> None:
        self.settle()
        self.broker.kill()
        self._restart = threading.Thread(target=self._start, daemon=True)
        self._restart.start()

    def settle(self) -> None:
        """Wait until a broker that was killed is back."""
        if self._restart is not None:
            self._restart.join()
            self._restart = None

    def _start(self) -> None:
        self.broker.port = self.wire.target_port  # it has taken the address that it advertises for its own
        self.broker.start()

    def __enter__(self) -> Site:
        self.wire.__enter__()
        self._start()
        if self._transaction_version < 2:
            with Admin(bootstrap_servers=self.address) as admin:
                level = FeatureUpdate(self._transaction_version, UpgradeType.SAFE_DOWNGRADE)
                admin.update_features({"transaction.version": level}).all()
        return self

    def __exit__(self, *_: object) -> None:
        self.settle()
        self.broker.__exit__(None, None, None)
        self.wire.__exit__(None, None, None)


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("broker"), 2) as running:
        yield running
        assert running.broker.errors() == []


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("older"), 1) as running:
        yield running
        assert running.broker.errors() == []


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Site:
    """The broker that the test's step is of."""
    step = request.getfixturevalue("step") if "step" in request.fixturenames else ""
    found: Site = request.getfixturevalue("older" if step in STEPS_V1 else "newest")
    return found


@pytest.fixture(scope="module", params=list(KINDS) if IS_SOAK else list(KINDS)[:2])
def drivers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    speculates, keeps_times = KINDS[request.param]
    log = tmp_path_factory.mktemp("driver") / "driver.log"
    with Drivers(log, speculates=speculates, keeps_times=keeps_times) as kept:
        yield kept


class Drivers:
    """A driver that lives from test to test, and is replaced when it has been killed."""

    def __init__(self, log: Path, *, speculates: bool, keeps_times: bool) -> None:
        self.speculates = speculates
        self.keeps_times = keeps_times
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
                    "spark.speculation": str(self.speculates).lower(),
                    "spark.speculation.multiplier": "1.1",
                    "spark.speculation.quantile": "0.5",
                    "spark.speculation.interval": "500ms",
                    "spark.speculation.minTaskRuntime": "2s",
                },
            )
        return self._driver

    def kill(self) -> None:
        """kill -9, if it has not happened yet."""
        if self._driver is not None:
            with suppress(ProcessLookupError):
                self._driver.kill()
            self._driver.process.wait()

    def kill_workers(self) -> None:
        """kill -9 of all Python processes that the driver's JVM runs tasks, plans and commits in."""
        assert self._driver is not None, "a driver runs the query"
        for pid in self._driver.workers():
            with suppress(ProcessLookupError):  # it was done meanwhile
                os.kill(pid, signal.SIGKILL)

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def __enter__(self) -> Drivers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._driver is not None:
            self._driver.__exit__(None, None, None)


class Copy:
    """One query: its topics, its checkpoint, and how it went."""

    def __init__(self, site: Site, drivers: Drivers, directory: Path, trips: str | None = None) -> None:
        site.settle()
        self.address = site.address
        self.site = site
        self.drivers = drivers
        self.source, self.target = new_topic("input"), new_topic("output")
        self.checkpoint = directory / self.target
        self.answers: list[str] = []
        self._noted_count = 0
        self._is_over = False
        self._query = {
            "address": site.address,
            "source": self.source,
            "target": self.target,
            "checkpoint": str(self.checkpoint),
            "per_trigger": ROWS_PER_BATCH,
            "keeps_times": drivers.keeps_times,
            "trips": trips,
        }
        with Admin(bootstrap_servers=site.address) as admin:
            admin.create_topics([NewTopic(self.source, 3, 1), NewTopic(self.target, 2, 1)]).all()
        padding = "x" * VALUE_SIZE
        rows = pa.record_batch(
            {
                "key": pa.array([f"k{number % 50}".encode() for number in range(ROW_COUNT)]),
                "value": pa.array([f"{number}-{padding}".encode() for number in range(ROW_COUNT)]),
                "timestamp": pa.array([BEGIN_MS + number // 3 for number in range(ROW_COUNT)]),
            }
        )
        with Producer(bootstrap_servers=site.address) as producer:
            producer.send_arrow(self.source, rows).result()

    def kill_at(self, step: Step, kill: Callable[[Seen | None], None]) -> None:
        """Let `kill` be called once, at this step; with the connection that it is seen on, if it is."""
        if isinstance(step, Request):
            self.site.wire.arm(Wire(step.api_key, step.nth, step.when, kill))
            return

        def look() -> None:
            while not step.is_there(self.checkpoint):
                if self._is_over:
                    return
                time.sleep(LOOK_S)
            kill(None)
            self._noted_count += 1

        self.site.wire.arm()
        threading.Thread(target=look, daemon=True).start()

    @property
    def kill_count(self) -> int:
        return self.site.wire.pulled_count + self._noted_count

    def run(self) -> None:
        """Until it is done, however often it has to be begun again."""
        while not self.answers or self.answers[-1] != "done":
            assert len(self.answers) < TRIES_MAX, f"{self.answers}\n{self.drivers.log_tail()}"
            self.answers.append(self.drivers.current.run(**self._query))
        self._is_over = True
        self.site.wire.disarm()
        self.site.settle()

    def check(self) -> None:
        """The output has every record of the input once, each key's in their order and in one partition, of its own
        time where it is to keep it, and no transaction is left open."""
        source = numbers(self.address, self.source)
        target = numbers(self.address, self.target)
        assert Counter(number for _, _, number in target) == Counter(range(ROW_COUNT)), self.answers
        assert by_key(target) == by_key(source)
        if self.drivers.keeps_times:
            assert times(self.address, self.target) == times(self.address, self.source)
        assert all(len({place for place, one, _ in target if one == key}) == 1 for key in by_key(target))
        places = {TopicPartition(self.target, place): OffsetSpec.latest() for place in range(2)}
        with Admin(bootstrap_servers=self.address) as admin:
            stable = admin.list_offsets(places, isolation_level="read_committed").all()
            assert stable == admin.list_offsets(places).all()
            # After hundreds of tests a broker that is killed would look through all their logs before it is back.
            admin.delete_topics([self.source, self.target]).all()


def numbers(address: str, topic: str) -> list[tuple[int, bytes, int]]:
    """A topic's records as a read_committed reader sees them: partition, key and number."""
    table = read_topic(address, topic, isolation_level="read_committed")
    columns = (table.column(name).to_pylist() for name in ("partition", "key", "value"))
    return [(place, key, int(value.partition(b"-")[0])) for place, key, value in zip(*columns, strict=True)]


def times(address: str, topic: str) -> dict[bytes, int]:
    """When each record of a topic was, by its value."""
    table = read_topic(address, topic, isolation_level="read_committed")
    moments = table.column("timestamp").cast("int64").to_pylist()
    return dict(zip(table.column("value").to_pylist(), moments, strict=True))


def by_key(records: list[tuple[int, bytes, int]]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for _, key, number in records:
        found.setdefault(key, []).append(number)
    return found


@pytest.mark.parametrize("step", cases("worker"))
def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    step: str, site: Site, drivers: Drivers, tmp_path: Path
) -> None:
    """The process that has sent the request: a task's, or the one that plans, or the one that commits."""
    copy = Copy(site, drivers, tmp_path)
    found = ALL_STEPS[step]
    assert isinstance(found, Request)
    copy.kill_at(found, kill_sender)
    copy.run()
    assert copy.kill_count == 1
    if found.api_key in (PRODUCE, ADD_PARTITIONS):
        assert copy.answers == ["done"], "Spark tries the task again, and that is enough"
    copy.check()


def kill_sender(seen: Seen | None) -> None:
    assert seen is not None, "a request has a sender"
    pid = seen.client_pid()
    if pid is not None:  # and not the one of a driver that was killed before
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("step", cases("every worker"))
def test_workers_that_are_killed_all_at_once_lose_and_double_nothing(
    step: str, site: Site, drivers: Drivers, tmp_path: Path
) -> None:
    """Those that run a task, and those whose task has ended."""
    copy = Copy(site, drivers, tmp_path)
    copy.kill_at(ALL_STEPS[step], lambda _: drivers.kill_workers())
    copy.run()
    assert copy.kill_count == 1
    copy.check()


def test_tasks_that_fail_half_way_are_completed_by_their_next_attempt(
    site: Site, drivers: Drivers, tmp_path: Path
) -> None:
    """Every task of every micro-batch fails once, after half of its rows were sent."""
    copy = Copy(site, drivers, tmp_path, trips="fail")
    copy.run()
    assert copy.answers == ["done"]
    copy.check()


@pytest.mark.skipif(not IS_SOAK, reason="speculative tasks take their time: OTTLA_SOAK=1")
def test_a_speculative_copy_of_a_slow_task_loses_and_doubles_nothing(
    site: Site, drivers: Drivers, tmp_path: Path
) -> None:
    if not drivers.speculates:
        pytest.skip("nothing is speculated")
    copy = Copy(site, drivers, tmp_path, trips="sleep")
    copy.run()
    copy.check()


@pytest.mark.parametrize("step", cases("broker"))
def test_a_broker_that_is_killed_loses_and_doubles_nothing(
    step: str, site: Site, drivers: Drivers, tmp_path: Path
) -> None:
    copy = Copy(site, drivers, tmp_path)
    copy.kill_at(ALL_STEPS[step], lambda _: site.kill())
    copy.run()
    assert copy.kill_count == 1
    copy.check()


@pytest.mark.parametrize("step", cases("driver"))
def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    step: str, site: Site, drivers: Drivers, tmp_path: Path
) -> None:
    copy = Copy(site, drivers, tmp_path)
    copy.kill_at(ALL_STEPS[step], lambda _: drivers.kill())
    copy.run()
    assert copy.kill_count == 1
    assert copy.answers == ["killed", "done"]
    copy.check()


@pytest.mark.skipif(not IS_SOAK, reason="takes minutes: OTTLA_SOAK=1 runs it")
@pytest.mark.parametrize("seed", seeds())
def test_kills_that_are_drawn_one_after_the_other_lose_and_double_nothing(
    seed: int, request: pytest.FixtureRequest, drivers: Drivers, tmp_path: Path
) -> None:
    """Also in the middle of what puts an earlier kill right."""
    chance = random.Random(seed)
    site: Site = request.getfixturevalue(chance.choice(("newest", "older")))
    copy = Copy(site, drivers, tmp_path, trips=chance.choice((None, None, "fail")))
    kills: list[Callable[[Seen | None], None]] = [
        kill_sender,
        lambda _: drivers.kill_workers(),
        lambda _: drivers.kill(),
        lambda _: site.kill(),
    ]

    def late(kill: Callable[[Seen | None], None], delay_s: float) -> Callable[[Seen | None], None]:
        def wait(seen: Seen | None) -> None:
            time.sleep(delay_s)
            kill(seen)

        return wait

    apis = (INIT_PRODUCER_ID, OFFSET_FETCH, PRODUCE, PRODUCE, DESCRIBE_PRODUCERS, FETCH, TXN_OFFSET_COMMIT, END_TXN)
    wires = []
    for _ in range(chance.randint(2, 5)):
        api_key = chance.choice(apis)
        nth = chance.randint(1, {PRODUCE: 12, FETCH: 3}.get(api_key, 2))
        when = chance.choice(list(When))
        delay_s = chance.choice((0, 0.001, 0.003, 0.01)) if when is When.DURING else 0
        wires.append(Wire(api_key, nth, when, late(chance.choice(kills), delay_s)))
    site.wire.arm(*wires)
    copy.run()
    assert copy.kill_count > 0
    copy.check()
