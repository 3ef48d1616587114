"""Options that all tests share."""

from __future__ import annotations

import signal

import hypothesis
import pytest

# How long an example takes says how busy the machine is: a slow one is no failure.
hypothesis.settings.register_profile("ottla", deadline=None)
hypothesis.settings.load_profile("ottla")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what the transcripts print now into them; review the diff"
    )


def pytest_configure() -> None:
    """A shell's background job ignores SIGINT, and so would every process that a test starts and interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether transcripts are to be written anew instead of compared."""
    return bool(request.config.getoption("--rewrite"))
