"""The benchmarks of pipelines still run. No figure is judged here."""

from __future__ import annotations

import os

import pytest

from tests.unit.test_benchmarks import SPARKS, check_with_small_sizes


@pytest.mark.skipif("OTTLA_SOAK" not in os.environ, reason="takes minutes: OTTLA_SOAK=1 runs it")
@pytest.mark.timeout(1200)
def test_every_benchmark_of_pipelines_works_with_small_sizes() -> None:
    check_with_small_sizes(SPARKS)
