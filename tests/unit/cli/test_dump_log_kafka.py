"""The expected output of `ottla dump-log` is what Kafka's own tool prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dump_log import CASES, Case, Output, run_kafka, unpack

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Output]]:
    directory = tmp_path_factory.mktemp("dump-log")
    return directory, unpack(directory)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_real_tool_prints_what_is_kept_of_it(case: Case, kept: tuple[Path, dict[str, Output]]) -> None:
    directory, outputs = kept
    printed = run_kafka(directory, case)
    assert printed.lines == outputs[case.name].lines
    assert printed.errors == outputs[case.name].errors
