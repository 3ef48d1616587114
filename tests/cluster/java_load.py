"""Kafka's own producer that goes on while nodes die: `VerifiableProducer`, idempotent and with five requests in flight.

`JavaLoad` is the process; it remembers what was acknowledged, and where. Values are the numbers from 0 on. Called by
tests marked `java`.
"""

from __future__ import annotations

import base64
import json
import signal
import subprocess
from pathlib import Path

from confluent_kafka import TopicPartition

from tests.support.kafka import java_command
from tests.support.survey import TIMEOUT_S, read_to_end

CONFIG = {
    "enable.idempotence": "true",
    "retries": "2147483647",
    "linger.ms": "2",
    "batch.size": "1024",  # so much to one partition before it goes on to the next (KIP-794)
    "request.timeout.ms": "2000",
    "delivery.timeout.ms": "120000",
    "metadata.max.age.ms": "1000",
    # Kafka's client asks nobody for metadata while it waits for any connection (NetworkClient.leastLoadedNode), and it
    # may have lost all others to time-outs when the leaders are cut off. By default it waits 10 s, then 20. A wait
    # that is no longer than the pause behind it leaves time to ask others, even where two nodes are cut off.
    "socket.connection.setup.timeout.ms": "500",
    "socket.connection.setup.timeout.max.ms": "1000",
    "reconnect.backoff.ms": "500",
    "reconnect.backoff.max.ms": "1000",
}


class JavaLoad:
    """One producer in a process of its own, `throughput` records a second."""

    def __init__(self, directory: Path, address: str, topic: str, *, throughput: int = 300) -> None:
        config = directory / "producer.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in CONFIG.items()))
        self._output = directory / "producer.json"
        self._topic = topic
        arguments = ["--bootstrap-server", address, "--topic", topic, "--throughput", str(throughput)]
        arguments += ["--acks", "-1", "--command-config", str(config)]
        self._command = java_command("org.apache.kafka.tools.VerifiableProducer", arguments)
        self._process: subprocess.Popen[bytes] | None = None
        self._read_to = 0
        self.acknowledged: dict[tuple[int, int], int] = {}
        """Partition and offset -> value."""
        self.failed: list[str] = []

    def start(self) -> None:
        with open(self._output, "wb") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output, start_new_session=True)

    def finish(self) -> None:
        """Send no more, and return when all that was sent is acknowledged, or has failed."""
        assert self._process is not None, "not started"
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(2 * TIMEOUT_S)
        self._read()

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def count(self) -> int:
        """How many are acknowledged."""
        self._read()
        return len(self.acknowledged)

    @property
    def begun(self) -> set[int]:
        """The partitions in which something is acknowledged."""
        self._read()
        return {partition for partition, _ in self.acknowledged}

    def check(self, address: str, partition_count: int) -> None:
        """Every record once, each partition's in order, and those that were acknowledged at their offsets."""
        assert not self.failed, "\n".join(self.failed[:10])
        places = [TopicPartition(self._topic, partition) for partition in range(partition_count)]
        rows = read_to_end(address, places, "read_committed")
        values: list[int] = []
        for (_, partition), found in rows.items():
            mine = [int(base64.b64decode(row[4])) for row in found]
            assert mine == sorted(set(mine)), f"partition {partition}: repeated or out of order"
            assert [row[0] for row in found] == list(range(len(found))), f"partition {partition}: offsets with holes"
            for offset, value in enumerate(mine):
                acknowledged = self.acknowledged.get((partition, offset), value)
                assert acknowledged == value, f"partition {partition}: {value} at {offset}, not {acknowledged}"
            values += mine
        assert sorted(values) == list(range(len(values))), "lost or repeated"
        assert len(values) == len(self.acknowledged)

    def _read(self) -> None:
        """The lines that have come since the last time."""
        with open(self._output, "rb") as output:
            output.seek(self._read_to)
            whole = output.read().rpartition(b"\n")[0]
        self._read_to += len(whole) + (1 if whole else 0)
        for line in whole.splitlines():
            if not line.startswith(b"{"):
                continue  # a logger's
            event = json.loads(line)
            if event["name"] == "producer_send_success":
                self.acknowledged[event["partition"], event["offset"]] = int(event["value"])
            elif event["name"] == "producer_send_error":
                self.failed.append(f"{event['value']}: {event['message']}")
