"""Kafka's own classes decide as ours do: thousands of random partitions in random trouble, and whole images.

`PartitionChanges.java`, `ImageOracle.java` and `PlacementOracle.java` put the questions to them; one process answers
all of a test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from ottla.errors import InvalidReplicationFactor
from ottla.metadata import Image, ImageBuilder, LeaderRecoveryState, MetadataVersion, PartitionImage
from ottla.metadata.control.partition_change import Election, PartitionChanger
from ottla.metadata.control.placement import UsableBroker, place
from ottla.types import Uuid
from ottla.wire.json_form import to_json
from ottla.wire.metadata import (
    BeginTransactionRecord,
    EndTransactionRecord,
    VersionedRecord,
    read_record,
    write_record,
)
from tests.support.kafka import run_java
from tests.unit.metadata.test_image import everything
from tests.unit.metadata.test_random_histories import History

pytestmark = pytest.mark.java

T = TypeVar("T")

QUESTIONER = Path(__file__).with_name("PartitionChanges.java")
ORACLE = Path(__file__).with_name("ImageOracle.java")
PLACER = Path(__file__).with_name("PlacementOracle.java")
CASE_COUNT = 6000


def uuid(number: int) -> Uuid:
    return Uuid((7).to_bytes(8, "big") + number.to_bytes(8, "big"))


def text(ids: Collection[int]) -> str:
    return ",".join(str(one) for one in ids) or "-"


def some(chance: Random, ids: Collection[int], likely: float = 0.5) -> list[int]:
    return [one for one in ids if chance.random() < likely]


class Case:
    """A partition, and what is to become of it. `None` leaves a part as it is."""

    def __init__(self, chance: Random) -> None:
        self.replicas = chance.sample(range(1, 7), chance.randint(1, 5))
        self.isr = some(chance, self.replicas, 0.6)
        rest = [one for one in self.replicas if one not in self.isr]
        self.has_elr = chance.random() < 0.7
        self.elr = sorted(some(chance, rest)) if self.has_elr else []
        self.leader = chance.choice([*self.isr, -1]) if self.isr else -1
        self.last_known = [chance.choice(self.replicas)] if self.has_elr and chance.random() < 0.4 else []
        self.recovery = chance.choice([0, 0, 0, 1])
        is_moving = chance.random() < 0.3
        self.adding = sorted(some(chance, self.replicas, 0.3)) if is_moving else []
        self.removing = [one for one in sorted(self.replicas) if is_moving and one not in self.adding][:1]
        self.alive = some(chance, range(1, 8), 0.6)
        self.level = chance.choice([7, 11, 16, 20, 25, 30, 30, 30])
        self.min_isr = chance.randint(1, 3)
        self.election = chance.choice(list(Election))
        self.new_isr = some(chance, self.replicas, 0.6) if chance.random() < 0.6 else None
        self.new_replicas: list[int] | None = None
        self.new_adding: list[int] | None = None
        self.new_removing: list[int] | None = None
        if chance.random() < 0.3:
            target = chance.sample(range(1, 8), chance.randint(1, 4))
            self.new_removing = sorted(set(self.replicas) - set(target))
            self.new_adding = sorted(set(target) - set(self.replicas))
            self.new_replicas = [*target, *self.new_removing]
        self.new_recovery = chance.choice([None, None, 0])
        self.unclean = [chance.choice(self.replicas)] if chance.random() < 0.2 else None
        self.moved = [chance.choice(self.replicas)] if chance.random() < 0.2 else None
        self.directories = [100 + one for one in self.replicas]

    @property
    def question(self) -> str:
        def maybe(ids: Collection[int] | None) -> str:
            return "same" if ids is None else text(ids)

        words = [
            text(self.replicas),
            text(self.directories),
            text(self.isr),
            str(self.leader),
            str(self.recovery),
            text(self.adding),
            text(self.removing),
            text(self.elr),
            text(self.last_known),
            text(self.alive),
            str(self.level),
            str(self.min_isr),
            str(self.has_elr).lower(),
            self.election.name,
            maybe(self.new_isr),
            maybe(self.new_replicas),
            maybe(self.new_adding),
            maybe(self.new_removing),
            "same" if self.new_recovery is None else str(self.new_recovery),
            maybe(self.unclean),
            maybe(self.moved),
        ]
        return " ".join(words)

    def answer(self) -> str:
        partition = PartitionImage(
            replicas=tuple(self.replicas),
            directories=tuple(uuid(one) for one in self.directories),
            isr=tuple(self.isr),
            leader=self.leader,
            leader_epoch=3,
            partition_epoch=4,
            leader_recovery_state=LeaderRecoveryState(self.recovery),
            adding=tuple(self.adding),
            removing=tuple(self.removing),
            elr=tuple(self.elr),
            last_known_elr=tuple(self.last_known),
        )
        changer = PartitionChanger(
            partition,
            uuid(99),
            5,
            may_lead=self.alive.__contains__,
            default_directory=lambda one: uuid(1000 + one),
            metadata_version=MetadataVersion(self.level),
            min_isr=self.min_isr,
            has_elr=self.has_elr,
        )
        changer.election = self.election
        if self.new_isr is not None:
            changer.isr = self.new_isr
        if self.new_replicas is not None:
            changer.replicas = self.new_replicas
        if self.new_adding is not None:
            changer.adding = self.new_adding
        if self.new_removing is not None:
            changer.removing = self.new_removing
        if self.new_recovery is not None:
            changer.recovery_state = LeaderRecoveryState(self.new_recovery)
        if self.unclean is not None:
            changer.unclean_shutdown_replicas = self.unclean
        if self.moved is not None:
            changer.directories[self.moved[0]] = uuid(2000)
        built = changer.build()
        if built is None:
            return "none"
        return f"{built.version} {json.dumps(to_json(*built))}"


def parsed(answer: str) -> tuple[int, object] | str:
    version, _, form = answer.partition(" ")
    return answer if answer == "none" else (int(version), json.loads(form))


def test_kafka_changes_random_partitions_as_we_do(tmp_path: Path) -> None:
    chance = Random(4301)
    cases = [Case(chance) for _ in range(CASE_COUNT)]
    # An older metadata.version cannot carry eligible leader replicas: a cluster that has them is newer.
    cases = [case for case in cases if case.level >= 23 or not case.has_elr]
    asked, answered = tmp_path / "questions", tmp_path / "answers"
    asked.write_text("".join(case.question + "\n" for case in cases))
    run = run_java(str(QUESTIONER), [str(asked), str(answered)])
    assert run.returncode == 0, run.stderr
    answers = answered.read_text().splitlines()
    wrong = [
        f"{case.question}\n  ours  {case.answer()}\n  Kafka {answer}"
        for case, answer in zip(cases, answers, strict=True)
        if parsed(case.answer()) != parsed(answer)
    ]
    assert len(cases) > CASE_COUNT / 2
    assert sum(answer == "none" for answer in answers) < len(cases) / 2, "most cases change something"
    assert not wrong, f"{len(wrong)} of {len(cases)} differ\n" + "\n".join(wrong[:5])


def canonical(record: VersionedRecord) -> str:
    """A record as text, with lists in order that Kafka keeps in hash tables."""
    form = to_json(*record)
    for name in ("features", "entity", "endPoints"):
        if name in form:
            form[name] = sorted(form[name], key=json.dumps)
    return f"{record.record.schema.name}.{record.version} {json.dumps(form, sort_keys=True)}"


def random_log() -> list[list[VersionedRecord]]:
    """The batches that the controller has written in a random history, without the marks of transactions."""
    history = History(78)
    for _ in range(200):
        history.step()
    history.close()
    marks = (BeginTransactionRecord, EndTransactionRecord)
    return [
        [record for record in batch.records if not isinstance(record.record, marks)]
        for batch in history.cluster.quorum.batches
    ]


def every_kind() -> list[list[VersionedRecord]]:
    return [[VersionedRecord(record, record.schema.versions.last)] for record in everything()]


@pytest.mark.parametrize("make", [random_log, every_kind])
def test_kafka_makes_the_same_image_and_writes_the_same_snapshot(
    make: Callable[[], list[list[VersionedRecord]]], tmp_path: Path
) -> None:
    log = make()
    given, written = tmp_path / "records", tmp_path / "image"
    given.write_text("\n".join("".join(write_record(*record).hex() + "\n" for record in batch) for batch in log) + "\n")
    run = run_java(str(ORACLE), [str(given), str(written)])
    assert run.returncode == 0, run.stderr
    theirs = [read_record(bytes.fromhex(line)) for line in written.read_text().splitlines()]
    image = Image("cluster")
    for batch in log:
        builder = ImageBuilder(image)
        builder.replay_all(record for record, _ in batch)
        image = builder.build(offset=1, epoch=1, timestamp_ms=1)[1]
    ours = list(image.records())
    assert sorted(map(canonical, ours)) == sorted(map(canonical, theirs))
    # The order of kinds is Kafka's too; within a kind Kafka's is that of a hash table.
    assert _kinds(ours) == _kinds(theirs)
    assert len(ours) > 15


def _kinds(records: list[VersionedRecord]) -> list[str]:
    return list(dict.fromkeys(record.schema.name for record, _ in records))


class JavaRandom:
    """Java's `Random`, as far as placement rolls it."""

    def __init__(self, seed: int) -> None:
        self._seed = (seed ^ 0x5DEECE66D) & (2**48 - 1)

    def _next(self) -> int:
        """31 bits."""
        self._seed = (self._seed * 0x5DEECE66D + 0xB) & (2**48 - 1)
        return self._seed >> 17

    def randrange(self, stop: int, /) -> int:
        bits = self._next()
        if stop & (stop - 1) == 0:
            return (stop * bits) >> 31
        while bits - bits % stop + stop - 1 >= 2**31:
            bits = self._next()
        return bits % stop

    def shuffle(self, items: list[T], /) -> None:
        for size in range(len(items), 1, -1):
            other = self.randrange(size)
            items[size - 1], items[other] = items[other], items[size - 1]


def test_kafkas_placer_puts_replicas_where_ours_does(tmp_path: Path) -> None:
    """The same dice: the same replicas, over racks, fenced brokers and more partitions than a turn has; and the same
    words where there is no place."""
    chance = Random(77)
    questions: list[str] = []
    ours: list[str] = []
    for seed in range(400):
        racks = chance.choice([["-"], ["a", "b"], ["a", "b", "c"], ["-", "a", "b", "c", "d"]])
        fenced_share = chance.choice([0, 0, 0.3, 1])
        brokers = [
            UsableBroker(id, None if rack == "-" else rack, chance.random() < fenced_share)
            for id in chance.sample(range(20), chance.randint(1, 9))
            for rack in [chance.choice(racks)]
        ]
        count, factor = chance.randint(1, 40), chance.randint(0, 5)
        told = " ".join(f"{one.id}:{one.rack or '-'}:{'fenced' if one.is_fenced else 'unfenced'}" for one in brokers)
        questions.append(f"{seed} {count} {factor} {told}")
        try:
            placed = place(JavaRandom(seed), brokers, partition_count=count, replication_factor=factor)
            ours.append(" ".join(str(replicas) for replicas in placed))
        except InvalidReplicationFactor as error:
            ours.append(error.message)
    (tmp_path / "questions").write_text("\n".join(questions))
    ran = run_java(str(PLACER), [str(tmp_path / "questions"), str(tmp_path / "answers")])
    assert ran.returncode == 0, ran.stderr
    answers = (tmp_path / "answers").read_text().splitlines()
    for question, mine, kafkas in zip(questions, ours, answers, strict=True):
        assert mine == kafkas, question
    assert sum(one.startswith("[") for one in ours) > 150
