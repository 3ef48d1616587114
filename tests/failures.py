"""A pytest plugin, `-p tests.failures --failed-to FILE`: the ids of the tests that failed, one a line.

Called by `tests.run`, which tries them once more.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failed-to", type=Path, metavar="FILE", help="write the ids of the failed tests into FILE")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--failed-to")
    if path is not None and not hasattr(config, "workerinput"):  # xdist's workers report to the process they belong to
        config.pluginmanager.register(Failures(path))


class Failures:
    """Writes an id as soon as its test fails, so that a run that is cut short has told of it too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self._ids:
            self._ids.add(report.nodeid)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")
