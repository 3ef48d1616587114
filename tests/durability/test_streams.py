"""Real Kafka Streams 4.3.1 on Ottla: counts are exact, whoever is killed. `make soak` kills fifty times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.durability.counting import count_through_kills

IS_SOAK = bool(os.environ.get("OTTLA_SOAK"))
KILLS = 50 if IS_SOAK else 4


@pytest.mark.timeout(3600 if IS_SOAK else 240)
@pytest.mark.parametrize("protocol", ["streams", "classic"])
def test_exactly_once_counts_are_exact_through_kill_9_of_broker_and_application(protocol: str, tmp_path: Path) -> None:
    count_through_kills(tmp_path, protocol, kills=KILLS, instances=2 if IS_SOAK else 1)
