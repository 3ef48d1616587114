"""The broker that our own clients talk to: Ottla, or a real Kafka when `OTTLA_TESTS_AGAINST=kafka` asks for it."""

from __future__ import annotations

from tests.clients.groups.conftest import address

__all__ = ["address"]
