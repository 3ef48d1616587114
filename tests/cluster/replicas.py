"""The log files of a partition's replicas, compared byte by byte. Called by tests when the nodes have stopped.

Segments may begin at different offsets on different nodes, because a follower appends what one fetch brought at once:
what is compared is the batches of all segments, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.records import batches
from tests.support.processes import METADATA_TOPIC, ClusterProcesses

CHECKPOINT = "replication-offset-checkpoint"
HEADER_LINES = 2
"""A checkpoint begins with its version and the number of its entries."""


def log_bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def high_watermarks(data: Path) -> dict[str, int]:
    """`topic-partition` -> high watermark, as the node wrote it down when it stopped."""
    found = {}
    for line in (data / CHECKPOINT).read_text().splitlines()[HEADER_LINES:]:
        topic, partition, offset = line.split()
        found[f"{topic}-{partition}"] = int(offset)
    return found


def below(data: bytes, offset: int) -> bytes:
    """The batches that end before an offset."""
    return b"".join(bytes(one.data) for one in batches(data) if one.last_offset < offset)


def check_equal_replicas(
    cluster: ClusterProcesses, assigned: Mapping[str, Sequence[int]], *, whole: Mapping[str, int], factor: int
) -> dict[str, int]:
    """Assert that every partition is where it is assigned to, and its replicas equal below the high watermark.

    `assigned` is what `cluster.assignments()` said before the nodes stopped; `whole` names topics with the number of
    their partitions: each has `factor` replicas, which are equal to their end and have records. Returns how many bytes
    of each partition have been compared.
    """
    marks = {node.node_id: high_watermarks(node.data) for node in cluster.brokers}
    partitions = sorted({name for found in marks.values() for name in found})
    holders = {name: [one for one, found in marks.items() if name in found] for name in partitions}
    assert holders == {name: sorted(ids) for name, ids in assigned.items()}
    expected = {f"{topic}-{partition}" for topic, count in whole.items() for partition in range(count)}
    assert expected == {name for name in partitions if name.rpartition("-")[0] in whole}
    compared = {}
    for name in partitions:
        logs = {one: log_bytes(cluster[one].data / name) for one in holders[name]}
        if name in expected:
            assert len(logs) == factor, f"{name}: {len(logs)} replicas, not {factor}"
            assert all(logs.values()), f"{name}: nothing was written"
        else:
            mark = min(marks[one][name] for one in logs)
            logs = {one: below(data, mark) for one, data in logs.items()}
        first = min(logs)
        compared[name] = len(logs[first])
        for one, data in logs.items():
            assert data == logs[first], (
                f"{name}: the replicas of nodes {first} and {one} {difference(logs[first], data)}"
            )
    return compared


def check_equal_metadata(cluster: ClusterProcesses, word: bytes) -> None:
    """Assert that the controllers' metadata logs are equal as far as they go, and that all have come to `word`."""
    logs = {node.node_id: log_bytes(node.data / f"{METADATA_TOPIC}-0") for node in cluster.controllers}
    shortest = min(map(len, logs.values()))
    assert len({data[:shortest] for data in logs.values()}) == 1
    assert all(word in data for data in logs.values())


def difference(ours: bytes, theirs: bytes) -> str:
    """Where two logs part, in the words of their batches."""
    for one, other in zip(batches(ours), batches(theirs), strict=False):
        if bytes(one.data) != bytes(other.data):
            return f"{one} and {other} differ"
    return f"different lengths: {len(ours)} and {len(theirs)} bytes"
