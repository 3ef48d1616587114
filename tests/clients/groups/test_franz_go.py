"""franz-go in groups and transactions: each scenario of `franz_go/main.go` checks itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clients import new_topic
from tests.support.programs import go_program, run

SOURCE = Path(__file__).parent / "franz_go"


@pytest.mark.timeout(900)  # the first run on a machine builds it
@pytest.mark.parametrize(
    "scenario", ["cooperative", "range", "sticky", "next-gen", "static", "regex", "transform", "fence"]
)
def test_franz_go(address: str, scenario: str) -> None:
    done = run(go_program(SOURCE), scenario, address, new_topic(f"franz-{scenario}"))
    assert done.returncode == 0, done.stderr
