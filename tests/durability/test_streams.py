"""Real Kafka Streams 4.3.1 on Ottla: counts are exact, whoever is killed. `make soak` kills fifty times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.durability.counting import BROKER_SETTINGS, STEP_S, TOPICS, WordCount, count_through_kills
from tests.support.broker import BrokerProcess
from tests.support.clients import eventually

IS_SOAK = bool(os.environ.get("OTTLA_SOAK"))
KILLS = 50 if IS_SOAK else 3
CLUSTER_KILLS = 40 if IS_SOAK else 5
"""Every other one is an application's."""


@pytest.mark.timeout(3600 if IS_SOAK else 240)
@pytest.mark.parametrize("protocol", ["streams", "classic"])
def test_exactly_once_counts_are_exact_through_kill_9_of_broker_and_application(protocol: str, tmp_path: Path) -> None:
    count_through_kills(tmp_path, protocol, kills=KILLS, instances=2 if IS_SOAK else 1)


@pytest.mark.timeout(3600 if IS_SOAK else 240)
@pytest.mark.parametrize("protocol", ["streams", "classic"] if IS_SOAK else ["streams"])
def test_exactly_once_counts_are_exact_while_brokers_of_three_are_killed(protocol: str, tmp_path: Path) -> None:
    """With three replicas; a killed broker comes back only after the other two have gone on. The first to be killed is
    the active controller, and in the end each of the three has been, with the leaders and coordinators it had."""
    count_through_kills(tmp_path, protocol, kills=CLUSTER_KILLS, instances=2 if IS_SOAK else 1, node_count=3)


@pytest.mark.timeout(240)
def test_two_instances_are_told_where_all_state_is_and_stand_by_for_each_other(tmp_path: Path) -> None:
    """For interactive queries: each instance tells where its own server is, and is told of the other's."""
    settings = {**BROKER_SETTINGS, "group.streams.num.standby.replicas": "1"}
    place = "host-{} runs [lines-{}, word-count-words-repartition-{}] stands by for [word-count-words-repartition-{}]"
    with BrokerProcess(tmp_path, topics=TOPICS, settings=settings) as broker:
        instances = [
            WordCount(tmp_path, broker.address, "streams", str(number), application_server=f"host-{number}:7070",
                      num_stream_threads="1")
            for number in range(2)
        ]  # fmt: skip
        expected = {
            f"CLIENTS {place.format(0, one, one, 1 - one)}; {place.format(1, 1 - one, 1 - one, one)}" for one in (0, 1)
        }
        with instances[0], instances[1]:
            eventually(
                lambda: all(one.last_line("CLIENTS") in expected for one in instances),
                "both know where everything is",
                STEP_S,
            )
            assert instances[0].last_line("CLIENTS") == instances[1].last_line("CLIENTS")
            for one in instances:
                one.stop()
        broker.stop()
    assert broker.errors() == []
