"""`ottla/coordinator/transaction/transaction.py`: what is read from Kafka's log is what would be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.coordinator import Producer
from ottla.coordinator.transaction import Transaction, TransactionState
from ottla.errors import UnsupportedVersion
from ottla.records import NO_SEQUENCE, batches
from ottla.types import TopicPartition
from ottla.wire.coordinator import TRANSACTION
from ottla.wire.coordinator.transaction import TransactionLogKey, TransactionLogValue
from tests.support.golden import golden_data_dir
from tests.unit.coordinator.transaction.play import Play


def test_every_state_that_kafka_wrote_is_written_back_with_the_same_bytes(tmp_path: Path) -> None:
    seen: set[str] = set()
    for file in sorted(golden_data_dir(tmp_path).rglob("__transaction_state-*/*.log")):
        for batch in batches(file.read_bytes()):
            assert batch.base_sequence == NO_SEQUENCE
            for record in batch.records():
                assert record.key is not None
                assert record.value is not None
                key = TRANSACTION.read_key(record.key)
                assert isinstance(key, TransactionLogKey)
                value, version = TRANSACTION.read_value(key, record.value)
                assert isinstance(value, TransactionLogValue)
                transaction = Transaction.from_record(value)
                written = transaction.to_record(key.transactional_id, transaction_version=version)
                assert written.value is not None
                assert TRANSACTION.write_key(written.key) == record.key
                assert TRANSACTION.write_value(written.value, written.version) == record.value
                seen.add(transaction.state.state_name)
    assert seen >= {"Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "PrepareAbort", "CompleteAbort"}


def test_batches_of_the_log_have_no_sequence_as_kafkas_have_none() -> None:
    play = Play()
    play.execute("init tx")
    (batch,) = batches(play.read_log(TopicPartition("__transaction_state", 0), 0))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.attributes) == (-1, -1, -1, 0)


def test_a_cluster_of_version_0_has_no_place_for_what_version_2_needs() -> None:
    """A client that speaks version 2 to it all the same is refused, and nothing has changed."""
    play = Play(transaction_version=0)
    play.execute("init tx")
    play.execute("add tx 1000/0 u-0")
    ended = play.node.transactions.end("tx", Producer(1000, 0), is_commit=True, client_version=2)
    with pytest.raises(UnsupportedVersion):
        ended.result()
    assert play.node.transactions.describe("tx").result().state is TransactionState.ONGOING
    assert play.execute("end tx 1000/0 commit v=4")[0] == "ok"
