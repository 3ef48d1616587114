"""kcat against the broker."""

from __future__ import annotations

import json

from tests.support.clients import CODECS, new_topic
from tests.support.kcat import run_kcat
from tests.support.nodes import NODE_IDS, Brokers, made_known


def kcat(broker: Brokers, *arguments: str, stdin: bytes = b"") -> bytes:
    """What kcat prints; it must succeed."""
    done = run_kcat(["-b", broker.address, *arguments], stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lines_go_in_and_come_out_with_every_codec_and_acks(broker: Brokers) -> None:
    lines = b"".join(b"k%d:v%d\n" % (i, i) for i in range(100))
    cases = [(codec, "all") for codec in CODECS] + [("lz4", "0"), ("lz4", "1")]
    for codec, acks in cases:
        topic = made_known(broker, new_topic(f"kcat-{codec}"))
        kcat(broker, "-P", "-t", topic, "-p", "0", "-K:", "-z", codec, "-X", f"acks={acks}", stdin=lines)
        assert kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-K:") == lines


def test_headers_and_tombstones_are_shown_and_reading_begins_where_asked(broker: Brokers) -> None:
    topic = new_topic("kcat-fields")
    for stdin in (b"a:1\n", b"b:\n", b"c:3\n"):
        kcat(broker, "-P", "-t", topic, "-p", "0", "-K:", "-Z", "-H", "h=x", "-H", "g=y", stdin=stdin)
    asked = ("-C", "-t", topic, "-p", "0", "-e", "-q", "-J")
    records = [json.loads(line) for line in kcat(broker, *asked, "-o", "beginning").splitlines()]
    assert [(one["key"], one["payload"], one["offset"]) for one in records] == [
        ("a", "1", 0),
        ("b", None, 1),
        ("c", "3", 2),
    ]
    assert all(one["headers"] == ["h", "x", "g", "y"] for one in records)
    assert [json.loads(line)["offset"] for line in kcat(broker, *asked, "-o", "-1").splitlines()] == [2]
    assert [json.loads(line)["offset"] for line in kcat(broker, *asked, "-o", "1").splitlines()] == [1, 2]
    assert kcat(broker, *asked, "-o", "end") == b""
    stamp = records[1]["ts"]
    found = [json.loads(line)["offset"] for line in kcat(broker, *asked, "-o", f"s@{stamp}").splitlines()]
    assert found == [1, 2]


def test_metadata_and_offsets_are_listed(broker: Brokers) -> None:
    topic = new_topic("kcat-list")
    kcat(broker, "-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", stdin=b"x\ny\n")
    listed = json.loads(kcat(broker, "-L", "-J"))
    assert sorted((one["id"], one["name"]) for one in listed["brokers"]) == sorted(broker.addresses.items())
    assert listed["controllerid"] in NODE_IDS
    (found,) = [one for one in listed["topics"] if one["topic"] == topic]
    (partition,) = found["partitions"]
    assert (partition["partition"], partition["leader"]) == (0, partition["replicas"][0]["id"])
    assert sorted(one["id"] for one in partition["replicas"]) == NODE_IDS
    assert sorted(one["id"] for one in partition["isrs"]) == NODE_IDS
    assert kcat(broker, "-Q", "-t", f"{topic}:0:-1") == f"{topic} [0] offset 2\n".encode()
    assert kcat(broker, "-Q", "-t", f"{topic}:0:-2") == f"{topic} [0] offset 0\n".encode()
