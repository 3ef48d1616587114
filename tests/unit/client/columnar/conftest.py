"""Each test of Arrow in and out asks both builds of the records' loops."""

from __future__ import annotations

import pytest

from ottla.client.columnar import reader, writer
from tests.unit.records import twins


@pytest.fixture(autouse=True, params=["native", "plain"])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which build stands behind `ottla.client.columnar` in this test."""
    name: str = request.param
    chosen = twins.named(name)
    monkeypatch.setattr(reader, "ColumnBuilder", chosen.ColumnBuilder)
    monkeypatch.setattr(writer, "RowEncoder", chosen.RowEncoder)
    monkeypatch.setattr(writer, "group_rows", chosen.group_rows)
    return name
