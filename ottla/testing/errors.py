"""What goes wrong with a cluster under test, apart from Kafka's own errors."""

from __future__ import annotations


class ClusterError(Exception):
    """One line for whoever wrote the test: what cannot be done, and what to do instead."""
