"""The clients' log lines, kept out of what a command or a check says. Called by `cli` and `pipelines.connect`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_client() -> Iterator[None]:
    """The client's own log lines are not the caller's output, unless something is badly wrong: what fails is raised."""
    logger = logging.getLogger("ottla.client")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
