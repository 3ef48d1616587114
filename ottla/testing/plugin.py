"""The pytest plugin: `ottla_cluster`, `ottla_bootstrap` and `ottla_topic`.

    def test_orders_are_kept(ottla_bootstrap, ottla_topic):
        producer = Producer({"bootstrap.servers": ottla_bootstrap})

One cluster serves the whole session, unless `ottla_scope` in pytest's settings or `--ottla-scope` says otherwise. A run
that uses none of the fixtures pays for nothing but this file: everything else is loaded with the first cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, cast

import pytest

if TYPE_CHECKING:
    from ottla.testing.cluster import Cluster

Scope = Literal["session", "package", "module", "class", "function"]
SCOPES = ("session", "package", "module", "class", "function")
TOPIC_NAME_MAX = 200
"""Kafka takes 249 characters; the rest is for what makes the name the only one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ottla", "a Kafka-compatible broker for tests")
    group.addoption(
        "--ottla-scope",
        choices=SCOPES,
        default=None,
        help="how long one cluster serves; session unless ottla_scope says",
    )
    group.addoption(
        "--ottla-processes", action="store_true", default=False, help="run the broker in a process of its own"
    )
    group.addoption(
        "--ottla-nodes", type=int, default=None, help="how many nodes the cluster has; 1 unless ottla_nodes says"
    )
    parser.addini("ottla_nodes", "how many nodes the cluster of ottla_cluster has", default="1")
    parser.addini(
        "ottla_scope", "how long one cluster of ottla_cluster serves: " + ", ".join(SCOPES), default="session"
    )
    parser.addini("ottla_settings", "settings of the broker, one NAME=VALUE a line", type="linelist", default=[])


def _scope(fixture_name: str, config: pytest.Config) -> Scope:
    scope = config.getoption("--ottla-scope") or config.getini("ottla_scope")
    if scope not in SCOPES:
        raise pytest.UsageError(f"ottla_scope is one of {', '.join(SCOPES)}, and not {scope!r}")
    return cast(Scope, scope)


@pytest.fixture(scope=_scope)
def ottla_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running `ottla.testing.Cluster`, of one node unless told otherwise."""
    from ottla.testing.cluster import Cluster

    config = request.config
    with Cluster(
        _node_count(config), processes=config.getoption("--ottla-processes"), settings=_settings(config)
    ) as cluster:
        yield cluster


@pytest.fixture(scope=_scope)
def ottla_bootstrap(ottla_cluster: Cluster) -> str:
    """What `bootstrap.servers` of a client is set to."""
    return ottla_cluster.bootstrap_servers


@pytest.fixture
def ottla_topic(ottla_cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """The name of a new topic of one partition, which no other test uses: the test's name and a number."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name).strip("-")[:TOPIC_NAME_MAX]
    numbers = request.config.stash.setdefault(_topic_count, 0)
    request.config.stash[_topic_count] = numbers + 1
    return ottla_cluster.create_topic(f"{stem}.{numbers}")


_topic_count = pytest.StashKey[int]()


def _node_count(config: pytest.Config) -> int:
    count = config.getoption("--ottla-nodes") or config.getini("ottla_nodes")
    try:
        return int(count)
    except ValueError:
        raise pytest.UsageError(f"ottla_nodes is a number, and not {count!r}") from None


def _settings(config: pytest.Config) -> dict[str, str]:
    found = {}
    for line in config.getini("ottla_settings"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"ottla_settings takes NAME=VALUE, and {line!r} has no '='")
        found[name.strip()] = value.strip()
    return found
