"""The producers of a log: transcripts, Kafka's own log as the judge, and the golden data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ottla.errors import InvalidTxnState, OutOfOrderSequenceNumber
from ottla.records import (
    Batch,
    ControlType,
    EndTransactionMarker,
    Record,
    batches,
    build_batch,
    end_transaction_batch,
)
from ottla.storage.offset_metadata import OffsetMetadata
from ottla.storage.producer_append import CompletedTxn
from ottla.storage.producer_state import ProducerStateConfig, ProducerStateManager, ProducerUpdate
from ottla.storage.transaction_index import AbortedTxn, TransactionIndex
from ottla.storage.validator import AppendOrigin
from ottla.types import TopicPartition
from ottla.world.system import SystemDisk
from tests.support.golden import golden_data_dir
from tests.support.kafka import kafka_classpath, run_java
from tests.support.producer_log import ProducerLog
from tests.support.producer_scripts import ScriptWriter
from tests.support.transcript import check, commands, outputs, transcripts

TRANSCRIPTS = transcripts("producer_state")
# `make soak` plays many more; a failure names its seed.
SEEDS = range(600 if os.environ.get("OTTLA_SOAK") else 60)
ORACLE = Path(__file__).parents[2] / "support" / "ProducerLogOracle.java"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_producers_are_treated_as_the_transcript_says(path: Path, tmp_path: Path, rewrite: bool) -> None:
    check(path, ProducerLog(tmp_path).execute, rewrite=rewrite)


# Kafka's own log as the judge


def ask_kafka(scripts: dict[str, list[str]], tmp_path: Path) -> dict[str, list[list[str]]]:
    """What Kafka's log answers to each command of each script."""
    script_file = tmp_path / "scripts"
    script_file.write_text(
        "".join(f"script {name}\n" + "".join(f"{line}\n" for line in lines) for name, lines in scripts.items())
    )
    (tmp_path / "logs").mkdir()
    answer_file = tmp_path / "answers"
    run = run_java(str(ORACLE), [str(script_file), str(tmp_path / "logs"), str(answer_file)])
    assert run.returncode == 0, run.stderr
    answers: dict[str, list[list[str]]] = {}
    for block in answer_file.read_text().split("script ")[1:]:
        name, _, transcript = block.partition("\n")
        answers[name] = outputs(transcript)
    return answers


def without_messages(answer: Sequence[str]) -> list[str]:
    """The errors' names are Kafka's; their messages are our own."""
    return [re.sub(r"^([A-Z_]+): .*", r"\1", line) for line in answer]


def assert_same(name: str, lines: list[str], ours: list[list[str]], kafkas: list[list[str]]) -> None:
    assert len(ours) == len(kafkas)
    for number, (line, our, kafka) in enumerate(zip(lines, ours, kafkas, strict=True)):
        assert without_messages(our) == kafka, f"{name}, command {number}: {line}"


@pytest.mark.java
def test_kafka_prints_the_same_for_every_transcript(tmp_path: Path) -> None:
    kafka_classpath()
    texts = {path.stem: path.read_text(encoding="utf-8") for path in TRANSCRIPTS}
    answers = ask_kafka({name: commands(text) for name, text in texts.items()}, tmp_path)
    assert answers.keys() == texts.keys()
    for name, text in texts.items():
        assert_same(name, commands(text), outputs(text), answers[name])


@pytest.mark.java
def test_kafka_answers_the_same_to_random_histories(tmp_path: Path) -> None:
    """Each history has about 250 commands; a failure names its seed and the command."""
    kafka_classpath()
    writers = {}
    for seed in SEEDS:
        (tmp_path / f"ours-{seed}").mkdir()
        writer = ScriptWriter(ProducerLog(tmp_path / f"ours-{seed}"), seed)
        writer.write(200)
        writers[f"seed {seed}"] = writer
    answers = ask_kafka({name: writer.commands for name, writer in writers.items()}, tmp_path)
    for name, writer in writers.items():
        assert_same(name, writer.commands, writer.answers, answers[name])


@pytest.mark.java
def test_a_snapshot_of_many_producers_is_byte_for_byte_kafkas(tmp_path: Path) -> None:
    kafka_classpath()
    log = ProducerLog(tmp_path)
    lines = [f"append client pid={(number * 0x9E3779B97F4A7C15) % 2**62} epoch=0 seq=0" for number in range(200)]
    lines += ["snapshot", "bytes 200"]
    ours = [log.execute(line) for line in lines]
    assert_same("many", lines, ours, ask_kafka({"many": lines}, tmp_path)["many"])


# The short way and the long way


@pytest.mark.parametrize("seed", range(25))
def test_the_short_way_of_a_common_append_ends_where_the_long_way_does(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "short").mkdir()
    writer = ScriptWriter(ProducerLog(tmp_path / "short"), seed)
    writer.write(200)
    monkeypatch.setattr(ProducerStateManager, "next_of", lambda *_: None)
    (tmp_path / "long").mkdir()
    log = ProducerLog(tmp_path / "long")
    for line, answer in zip(writer.commands, writer.answers, strict=True):
        assert log.execute(line) == answer, line


# The golden data


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_data_dir(tmp_path_factory.mktemp("golden"))


def golden_logs(data_dir: Path) -> Iterator[Path]:
    return (path for path in sorted(data_dir.iterdir()) if path.is_dir())


def manager_in(directory: Path) -> ProducerStateManager:
    directory.mkdir(exist_ok=True)
    config = ProducerStateConfig(producer_id_expiration_ms=2**62)
    return ProducerStateManager(SystemDisk(), str(directory), TopicPartition("golden", 0), config)


def log_batches(segment: Path) -> Iterator[Batch]:
    return batches(segment.read_bytes())


def test_replaying_kafkas_logs_gives_kafkas_snapshots_byte_for_byte(data_dir: Path, tmp_path: Path) -> None:
    """Snapshots are taken where Kafka took one: at the start of each segment and at the log's end."""
    compared = with_producers = 0
    for directory in golden_logs(data_dir):
        manager = manager_in(tmp_path / directory.name)
        snapshots = {int(path.stem): path.read_bytes() for path in directory.glob("*.snapshot")}
        # Compaction has removed batches here, and a raft log's end is not one of its batches.
        for segment in sorted(directory.glob("*.log")):
            manager.map_end_offset = int(segment.stem)
            manager.take_snapshot(sync=False)
            for batch in log_batches(segment):
                completed = manager.replay(batch)
                if completed is not None:
                    manager.complete(completed)
                manager.map_end_offset = batch.next_offset
        manager.map_end_offset = max(manager.map_end_offset, *snapshots, 0)
        manager.take_snapshot(sync=False)
        ours = {int(path.stem): path.read_bytes() for path in (tmp_path / directory.name).glob("*.snapshot")}
        assert ours == snapshots, directory.name
        compared += len(ours)
        with_producers += sum(len(data) > 10 for data in ours.values())
    assert (compared, with_producers) == (35, 6)


def test_replaying_kafkas_logs_gives_kafkas_transaction_indexes(data_dir: Path, tmp_path: Path) -> None:
    found = 0
    for directory in golden_logs(data_dir):
        manager = manager_in(tmp_path / directory.name)
        for segment in sorted(directory.glob("*.log")):
            aborted = []
            for batch in log_batches(segment):
                completed = manager.replay(batch)
                if completed is not None:
                    if completed.is_aborted:
                        aborted.append(AbortedTxn(*completed[:3], manager.last_stable_offset(completed)))
                    manager.complete(completed)
            index = TransactionIndex(SystemDisk(), str(segment.with_suffix(".txnindex")), int(segment.stem))
            assert index.all_aborted == aborted, segment
            index.close()
            found += len(aborted)
    assert found == 6


def test_kafkas_snapshots_load_and_are_written_back_with_equal_bytes(data_dir: Path, tmp_path: Path) -> None:
    for directory in golden_logs(data_dir):
        snapshots = sorted(directory.glob("*.snapshot"))
        if not snapshots:
            continue
        manager = manager_in(directory)
        end = int(snapshots[-1].stem)
        manager.truncate_and_reload(-1, end, 0)
        assert manager.map_end_offset == end
        copy = manager_in(tmp_path / directory.name)
        copy.producers = manager.producers
        copy.map_end_offset = end
        path = copy.take_snapshot()
        assert path is not None
        assert Path(path).read_bytes() == snapshots[-1].read_bytes()


# One append of several batches


def data_batch(
    offset: int, *, pid: int = 1, sequence: int = 0, count: int = 1, epoch: int = 0, is_transactional: bool = False
) -> Batch:
    data = build_batch(
        [Record(offset + delta, 1_000, None, b"value") for delta in range(count)],
        base_offset=offset,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    return next(batches(data))


def marker_batch(offset: int, kind: ControlType, *, pid: int = 1, epoch: int = 0) -> Batch:
    data = end_transaction_batch(
        EndTransactionMarker(kind, 0), producer_id=pid, producer_epoch=epoch, timestamp=1_000, base_offset=offset
    )
    return next(batches(data))


@pytest.fixture
def manager(tmp_path: Path) -> ProducerStateManager:
    return manager_in(tmp_path / "topic-0")


def test_batches_of_one_append_are_held_to_each_other(manager: ProducerStateManager) -> None:
    manager.apply(manager.analyze([data_batch(0)], origin=AppendOrigin.CLIENT))
    in_order = [data_batch(1, sequence=1), data_batch(2, pid=2), data_batch(3, sequence=2)]
    update = manager.analyze(in_order, origin=AppendOrigin.CLIENT)
    assert manager.producers[1].last_sequence == 0, "nothing changes before the batches are written"
    assert 2 not in manager.producers
    manager.apply(update)
    assert manager.producers[1].last_sequence == 2
    assert manager.producers[2].last_data_offset == 2

    with pytest.raises(OutOfOrderSequenceNumber, match="4 came, and the last sequence was 2"):
        manager.analyze([data_batch(4, sequence=4), data_batch(5, sequence=3)], origin=AppendOrigin.CLIENT)
    with pytest.raises(OutOfOrderSequenceNumber, match="5 came, and the last sequence was 3"):
        manager.analyze([data_batch(4, sequence=3), data_batch(5, sequence=5)], origin=AppendOrigin.CLIENT)
    assert manager.producers[1].last_sequence == 2


def test_batches_without_a_producer_change_nothing(manager: ProducerStateManager) -> None:
    plain = next(batches(build_batch([Record(0, 1_000, None, b"value")])))
    manager.apply(manager.analyze([plain], origin=AppendOrigin.CLIENT))
    assert manager.replay(plain) is None
    assert manager.is_empty


def test_a_duplicate_among_several_answers_for_all_of_them(manager: ProducerStateManager) -> None:
    manager.apply(manager.analyze([data_batch(0, count=3)], origin=AppendOrigin.CLIENT))
    again = [data_batch(3, pid=2), data_batch(4, count=3)]
    update = manager.analyze(again, origin=AppendOrigin.CLIENT)
    assert update.duplicate is not None
    assert (update.duplicate.first_offset, update.duplicate.last_offset) == (0, 2)
    with pytest.raises(AssertionError, match="answered, not appended"):
        manager.apply(update)


def test_a_fetch_may_bring_whole_transactions_in_one_append(manager: ProducerStateManager) -> None:
    fetched = [
        data_batch(0, is_transactional=True),
        data_batch(1, pid=2, is_transactional=True),
        marker_batch(2, ControlType.ABORT),
        data_batch(3, sequence=1, is_transactional=True),
        marker_batch(4, ControlType.COMMIT),
        data_batch(5, sequence=2, is_transactional=True),
    ]
    update = manager.analyze(fetched, origin=AppendOrigin.REPLICATION)
    manager.apply(update)
    assert list(update.completed) == [CompletedTxn(1, 0, 2, True), CompletedTxn(1, 3, 4, False)]
    assert [txn.first_offset.offset for txn in manager.ongoing_transactions] == [0, 1, 3, 5]
    assert [manager.last_stable_offset(completed) for completed in update.completed] == [1, 1]
    for completed in update.completed:
        manager.complete(completed)
    assert [txn.first_offset.offset for txn in manager.ongoing_transactions] == [1, 5]
    assert [txn.first_offset.offset for txn in manager.unreplicated_transactions] == [0, 3]
    assert manager.first_undecided_offset == 1


def test_a_transactions_start_keeps_its_place_in_the_segment(manager: ProducerStateManager) -> None:
    first = data_batch(10, pid=9)
    second = data_batch(11, is_transactional=True)
    manager.config.transaction_partition_verification_enable = False
    update = manager.analyze([first, second], origin=AppendOrigin.CLIENT, segment_base_offset=7, position=1_000)
    manager.apply(update)
    assert manager.first_unstable_offset == OffsetMetadata(11, 7, 1_000 + first.size)


def test_the_first_unstable_offset_is_the_lower_of_open_and_unreplicated(manager: ProducerStateManager) -> None:
    for batch in (data_batch(0, is_transactional=True), data_batch(1, pid=2, is_transactional=True)):
        manager.replay(batch)
    completed = manager.replay(marker_batch(2, ControlType.COMMIT, pid=2))
    assert completed is not None
    manager.complete(completed)
    assert manager.first_unstable_offset == OffsetMetadata(0), "open since 0, and 1 waits for replication"
    completed = manager.replay(marker_batch(3, ControlType.COMMIT))
    assert completed is not None
    manager.complete(completed)
    manager.on_high_watermark_updated(3)
    assert manager.first_unstable_offset == OffsetMetadata(0), "the marker at 3 is not below the high watermark"
    manager.on_high_watermark_updated(4)
    assert manager.first_unstable_offset is None


def test_a_transaction_that_was_never_started_cannot_be_completed(manager: ProducerStateManager) -> None:
    with pytest.raises(AssertionError, match="was never started"):
        manager.complete(CompletedTxn(1, 0, 5, True))


def test_a_client_cannot_open_a_transaction_that_nobody_has_verified(manager: ProducerStateManager) -> None:
    with pytest.raises(InvalidTxnState, match="no ongoing transaction in golden-0"):
        manager.analyze([data_batch(0, is_transactional=True)], origin=AppendOrigin.CLIENT)
    manager.analyze([data_batch(0, is_transactional=True)], origin=AppendOrigin.REPLICATION)


# Snapshots on disk


def test_a_torn_snapshot_is_removed_with_a_warning_and_the_older_one_serves(
    manager: ProducerStateManager, caplog: pytest.LogCaptureFixture
) -> None:
    for offset in range(3):
        manager.replay(data_batch(offset, sequence=offset))
        manager.map_end_offset = offset + 1
        manager.take_snapshot()
    torn = Path(manager.snapshots.path(3))
    torn.write_bytes(torn.read_bytes()[:-1])
    manager.map_end_offset = 99
    manager.truncate_and_reload(0, 3, 0)
    assert manager.map_end_offset == 2
    assert manager.producers[1].last_sequence == 1
    assert manager.snapshots.offsets == [1, 2]
    assert not torn.exists()
    assert "Removing a damaged producer snapshot" in caplog.text
    assert "expected checksum" in caplog.text


def test_a_snapshot_names_its_file_and_a_second_one_at_the_same_offset_is_not_taken(
    manager: ProducerStateManager,
) -> None:
    assert manager.take_snapshot() is None, "an empty log needs none"
    manager.map_end_offset = 7
    assert manager.take_snapshot() == manager.snapshots.path(7)
    assert manager.take_snapshot() is None
    assert manager.latest_snapshot_offset == manager.oldest_snapshot_offset == 7


def test_state_that_reaches_the_end_survives_a_truncation_to_it(manager: ProducerStateManager) -> None:
    manager.replay(data_batch(0))
    manager.map_end_offset = 1
    manager.truncate_and_reload(0, 1, 0)
    assert manager.producers[1].last_sequence == 0


def test_a_manager_follows_its_directory(manager: ProducerStateManager, tmp_path: Path) -> None:
    manager.map_end_offset = 5
    manager.take_snapshot()
    (tmp_path / "topic-0").rename(tmp_path / "topic-0.x-delete")
    manager.move_to(str(tmp_path / "topic-0.x-delete"))
    manager.map_end_offset = 6
    manager.take_snapshot()
    manager.delete_snapshots_before(6)
    assert [path.name for path in (tmp_path / "topic-0.x-delete").iterdir()] == ["00000000000000000006.snapshot"]
    deleted = manager.remove_and_mark_snapshot_for_deletion(6)
    assert deleted == f"{tmp_path}/topic-0.x-delete/00000000000000000006.snapshot.deleted"
    assert manager.remove_and_mark_snapshot_for_deletion(6) is None


def test_an_update_of_the_short_way_holds_no_other_state(manager: ProducerStateManager) -> None:
    manager.apply(manager.analyze([data_batch(0)], origin=AppendOrigin.CLIENT))
    update = manager.analyze([data_batch(1, sequence=1)], origin=AppendOrigin.CLIENT)
    assert isinstance(update, ProducerUpdate)
    assert update.entry is manager.producers[1]
    assert update.appends is None
    assert not update.completed
