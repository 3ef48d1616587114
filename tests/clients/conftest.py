"""One broker for each module of tests, or several with `OTTLA_TESTS_NODES`, watched for errors to the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.clients import healthy_broker
from tests.support.nodes import Brokers


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with healthy_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running
