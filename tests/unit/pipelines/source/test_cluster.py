"""What the driver asks the brokers, and what it says when none is there."""

from __future__ import annotations

import pytest

from ottla.client import BootstrapFailed
from ottla.pipelines.source.cluster import ClusterOffsets
from ottla.pipelines.source.options import SourceOptions

NOBODY = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a"}


def test_the_drivers_first_contact_fails_soon_and_names_the_address_that_refuses() -> None:
    """It has five seconds, and here none, so that the test need not wait for them."""
    given = ClusterOffsets(SourceOptions.read(NOBODY, is_streaming=False))
    try:
        assert given.config.bootstrap_connect_timeout_ms == 5000
    finally:
        given.close()
    cluster = ClusterOffsets(
        SourceOptions.read({**NOBODY, "kafka.bootstrap.connect.timeout.ms": "0"}, is_streaming=False)
    )
    try:
        with pytest.raises(BootstrapFailed, match=r"127\.0\.0\.1:1: connection refused"):
            cluster.partitions()
    finally:
        cluster.close()
