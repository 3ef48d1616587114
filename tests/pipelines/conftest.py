"""What the tests of pipelines share: one Spark and one node a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.testing import Cluster
from tests.support.spark import QUICK_DRIVER, start_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
TIMEOUT_S = 300
"""Of a test that says nothing else: the first of all waits for Spark as well."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark takes its time."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session", autouse=True)
def quick_drivers() -> Iterator[None]:
    """Every Spark that these tests start, here or in another process, is for seconds or minutes."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK_DRIVER.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def spark(quick_drivers: None) -> Iterator[SparkSession]:
    """The run's one Spark session, of two cores."""
    session = start_spark()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The run's one node, in a process of its own. A test that stops a broker or moves its clock makes its own."""
    with Cluster(processes=True) as running:
        yield running
