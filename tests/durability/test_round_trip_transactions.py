"""A transaction that one broker begins and the other ends, on one directory: Ottla, a real Kafka, and Ottla again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.raw import RawClient
from tests.support.server import Server, Settings, run_ottla
from tests.support.transactions_wire import WireScript

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def test_a_transaction_goes_on_when_another_broker_takes_over_the_directory(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "data")
    settings["offsets.topic.num.partitions"] = settings["transaction.state.log.num.partitions"] = "1"
    properties = settings.write(tmp_path / "server.properties")
    cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
    formatted = run_ottla("storage", "format", "-t", cluster_id, "-c", properties)
    assert formatted.returncode == 0, formatted.stderr

    with Server.ottla(properties) as ottla, RawClient(ottla.port) as client:
        script = WireScript(client)
        script.prepare()
        assert told(script, "init tx timeout=600000", "produce tx 1000/0 t-0 0", "produce tx 1000/0 t-1 0") == [
            "1000/0",
            "at 0",
            "at 0",
        ]
        assert told(script, "init other timeout=600000", "produce other 1001/0 u-0 0") == ["1001/0", "at 0"]

    with Server.kafka(properties) as kafka, RawClient(kafka.port) as client:
        script.client = client
        script.wait()
        (described,) = told(script, "describe tx")
        assert described.startswith("tx: Ongoing 1000/0 timeout=600000 start=")
        assert described.endswith("[t-0 t-1]")
        assert told(script, "produce tx 1000/0 t-0 1") == ["at 1"]
        assert told(script, "end tx 1000/0 commit", "produce tx 1000/1 t-0 0") == ["ok, go on with 1000/1", "at 3"]
        kafka.kill()

    with Server.ottla(properties) as ottla, RawClient(ottla.port) as client:
        script.client = client
        script.wait()
        (described,) = told(script, "describe tx")
        assert described.startswith("tx: Ongoing 1000/1 timeout=600000 start=")
        assert described.endswith("[t-0]")
        assert told(script, "end tx 1000/0 commit") == ["PRODUCER_FENCED"]
        assert told(script, "end tx 1000/1 abort") == ["ok, go on with 1000/2"]
        # Read from the transaction index of this broker, which has rebuilt it: Kafka was killed.
        assert script.do_read("t-0") == ["stable to 5 of 5", "aborted 1000 from 3"]
        assert script.do_read("t-1") == ["stable to 2 of 2"]
        assert told(script, "end other 1001/0 commit") == ["ok, go on with 1001/1"]
        assert script.do_read("u-0") == ["stable to 2 of 2"]
    assert ottla.errors() == []


def told(script: WireScript, *commands: str) -> list[str]:
    """What each command is answered, without what it has written."""
    return [line for command in commands for line in script.execute(command) if not line.startswith(" ")]
