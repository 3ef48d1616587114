"""`ottla/server/transaction_gauges.py`, and what `verification` counts."""

from __future__ import annotations

from ottla.server.transaction_gauges import publish_transaction_gauges
from tests.unit.coordinator.transaction.play import Play


def test_markers_that_wait_and_verifications_that_fail_are_told() -> None:
    play = Play()
    publish_transaction_gauges(play.node.broker)

    def shown(name: str) -> float:
        page = play.node.context.metrics.exposition().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in page if line.startswith(name))

    waiting = "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize"
    failures = "kafka_server_addpartitionstotxnmanager_verificationfailurerate_total"
    asked = "kafka_server_addpartitionstotxnmanager_verificationtimems_count"
    for command in ("init tx", "produce tx 1000/0 t-0 0", "produce tx 1000/0 t-1 0", "produce tx 1000/7 t-2 0"):
        play.execute(command)
    assert (shown(waiting), shown(failures), shown(asked)) == (0, 1, 3)
    play.execute("shrink t-0 t-1")
    play.execute("end tx 1000/0 commit")
    assert shown(waiting) == 2
    play.execute("grow t-0 t-1")
    play.execute("time 1s")
    assert shown(waiting) == 0
