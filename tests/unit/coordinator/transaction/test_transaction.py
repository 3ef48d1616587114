"""`ottla/coordinator/transaction/transaction.py`: what is read from Kafka's log is what would be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.coordinator import EndMarker, Producer
from ottla.coordinator.transaction import Transaction, TransactionState
from ottla.errors import NotController, UnsupportedVersion
from ottla.records import NO_SEQUENCE, batches
from ottla.server import LocalMarkers
from ottla.types import TopicPartition
from ottla.wire.coordinator import TRANSACTION
from ottla.wire.coordinator.transaction import TransactionLogKey, TransactionLogValue
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
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


def test_a_marker_that_was_written_to_the_coordinators_own_log_does_not_keep_it_from_loading() -> None:
    play = Play()
    play.execute("init tx")
    marker = EndMarker(5, 3, 0, is_commit=False)
    state = TopicPartition("__transaction_state", 0)
    sent = LocalMarkers(lambda: play.node.broker).send(marker, [state], transaction_version=1)
    assert sent.result() == {state: 0}
    play.do_reload()
    assert play.do_describe("tx") == ["tx: Empty 1000/0 timeout=60000 start=none []"]


@pytest.mark.parametrize("marker", ["-1/0 abort u-0", "1000/-1 abort u-0", "1000/0 abort u-0 tv=-1"])
def test_a_marker_without_a_producer_or_a_version_is_refused(marker: str) -> None:
    play = Play()
    assert play.execute(f"marker {marker}") == ["u-0: INVALID_REQUEST"]


def test_a_known_transactional_id_needs_no_block_of_ids_to_go_on() -> None:
    play = Play()
    play.execute("init tx")
    play.node.controller.answers[AllocateProducerIdsRequest] = lambda _: NotController()
    while play.node.replicas.producer_ids.take() is not None:
        pass
    assert play.execute("init tx")[0] == "1000/1"
    assert play.execute("init new") == ["COORDINATOR_LOAD_IN_PROGRESS"]
