"""kafkajs in groups and transactions: each scenario of `kafkajs/main.js` checks itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clients import new_topic
from tests.support.programs import node_program, run

SOURCE = Path(__file__).parent / "kafkajs"


@pytest.mark.timeout(300)  # the first run on a machine installs it
@pytest.mark.parametrize("scenario", ["share", "pattern", "transform"])
def test_kafkajs(address: str, scenario: str) -> None:
    done = run(node_program(SOURCE), scenario, address, new_topic(f"js-{scenario}"))
    assert done.returncode == 0, done.stderr
