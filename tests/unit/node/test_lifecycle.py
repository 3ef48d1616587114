"""A broker's membership: on a whole node, where it comes back by itself when it is gone from the metadata; and with a
controller that is a script, where everything that can go wrong does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import (
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    InvalidReplicationFactor,
    KafkaError,
    NotController,
    RequestTimedOut,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from ottla.metadata import Endpoint
from ottla.node import Node
from ottla.node.lifecycle import RETRY_MS_MAX, SHUTDOWN_MS_MAX, BrokerLifecycle
from ottla.server import RequestContext
from ottla.sim.world import VirtualNodeWorld, virtual_node_world
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.unit.metadata.harness import CLUSTER_ID, broker_config
from tests.unit.server.whole_node import with_node

SOON_S = 1.0


def test_a_broker_that_was_unregistered_serves_again_with_its_second_heartbeat(tmp_path: Path) -> None:
    """The first finds the registration gone and makes it anew; the second does not wait for its turn."""

    async def run(node: Node) -> float:
        replicas = node.broker.replicas
        response = await node.controller.handle(UnregisterBrokerRequest(1), version=0)
        assert isinstance(response, UnregisterBrokerResponse)
        assert response.error_code == 0
        registered_s = None
        while True:
            await asyncio.sleep(0.01)
            registration = None if replicas.image is None else replicas.image.brokers.get(1)
            if registration is not None and registered_s is None:
                registered_s = time.monotonic()
            if registration is not None and not registration.is_fenced:
                assert registered_s is not None
                return time.monotonic() - registered_s

    assert with_node(tmp_path, run) < SOON_S


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_controller_is_asked_before_a_broker_goes_unless_the_settings_say_otherwise(
    tmp_path: Path, is_enabled: bool
) -> None:
    """What the metadata log says of the broker in the end: without `controlled.shutdown.enable` it just goes."""

    async def run(node: Node) -> Node:
        assert not node.loader.image.brokers[1].is_fenced
        return node

    stopped = with_node(tmp_path, run, controlled_shutdown_enable=str(is_enabled).lower())
    assert stopped.loader.image.brokers[1].is_fenced is is_enabled


def test_the_controller_hears_of_a_failed_log_directory_before_the_next_heartbeat_is_due(tmp_path: Path) -> None:
    async def run(node: Node) -> float:
        def known() -> int:
            return len(node.loader.image.brokers[1].log_dirs)

        directories = node.replicas.logs.directories
        assert known() == len(directories) == 2
        began = time.monotonic()
        directories[1].take_offline("testing", OSError("this disk is made to fail"))
        node.replicas.check_directories()
        while known() == 2:
            await asyncio.sleep(0.01)
        return time.monotonic() - began

    log_dirs = f"{tmp_path / 'first'},{tmp_path / 'second'}"
    assert with_node(tmp_path, run, log_dirs=log_dirs, broker_heartbeat_interval_ms="3000") < SOON_S


def test_the_controller_places_nothing_on_a_broker_whose_directories_are_all_cordoned(tmp_path: Path) -> None:
    """Heartbeats said that nothing was cordoned, whatever `cordoned.log.dirs` said (KIP-1066)."""

    async def run(node: Node) -> None:
        def cordoned() -> tuple[Uuid, ...] | None:
            return node.loader.image.brokers[1].cordoned_log_dirs

        ids = node.loader.image.brokers[1].log_dirs
        assert not cordoned()
        for value, expected in ((str(tmp_path / "second"), 1), ("*", 2)):
            await alter_broker_config(node, "cordoned.log.dirs", value)
            while len(cordoned() or ()) != expected:
                await asyncio.sleep(0.01)
        assert set(cordoned() or ()) == set(ids)
        with pytest.raises(InvalidReplicationFactor, match="cordoned"):
            await node.create_topics([("nowhere", 1)])
        await alter_broker_config(node, "cordoned.log.dirs", "")
        while cordoned():
            await asyncio.sleep(0.01)
        await node.create_topics([("somewhere", 1)])

    log_dirs = f"{tmp_path / 'first'},{tmp_path / 'second'}"
    with_node(tmp_path, run, log_dirs=log_dirs, broker_heartbeat_interval_ms="3000")


async def alter_broker_config(node: Node, name: str, value: str) -> None:
    setting = AlterableConfig(name, 0, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", [setting])])
    response = await node.controller.handle(request, version=1)
    assert isinstance(response, IncrementalAlterConfigsResponse)
    assert response.responses[0].error_code == 0, response


def test_a_node_whose_log_directories_have_all_failed_cannot_go_on(tmp_path: Path) -> None:
    """It stayed in the cluster with nothing to serve."""

    async def run(node: Node) -> str:
        first, second = node.replicas.logs.directories
        failed = asyncio.ensure_future(node.until_failed())
        second.take_offline("testing", OSError("this disk is made to fail"))
        node.replicas.check_directories()
        await asyncio.sleep(0.1)
        assert not failed.done(), "the other directory is there, and the controller has been told"
        first.take_offline("testing", OSError("this disk is made to fail"))
        node.replicas.check_directories()
        return await asyncio.wait_for(failed, SOON_S)

    log_dirs = f"{tmp_path / 'first'},{tmp_path / 'second'}"
    told = with_node(tmp_path, run, log_dirs=log_dirs, metadata_log_dir=str(tmp_path / "metadata"))
    assert told == f"All log directories have failed: {tmp_path / 'first'}, {tmp_path / 'second'}"


def test_a_node_whose_metadata_directory_has_failed_cannot_go_on(tmp_path: Path) -> None:
    async def run(node: Node) -> str:
        node.replicas.logs.directories[0].take_offline("testing", OSError("this disk is made to fail"))
        node.replicas.check_directories()
        return await asyncio.wait_for(node.until_failed(), SOON_S)

    told = with_node(tmp_path, run, log_dirs=f"{tmp_path / 'first'},{tmp_path / 'second'}")
    assert told == f"The directory of the metadata log has failed: {tmp_path / 'first'}"


@pytest.mark.parametrize("is_reachable", [True, False])
def test_a_broker_that_cannot_tell_of_a_failed_directory_in_time_cannot_go_on(
    tmp_path: Path, is_reachable: bool
) -> None:
    """`log.dir.failure.timeout.ms`: it would go on as the leader of what it has lost."""

    async def run(node: Node) -> str | None:
        if not is_reachable:
            assert node.broker_role is not None
            assert node.broker_role.lifecycle is not None
            node.broker_role.lifecycle._controller = Deaf()  # type: ignore[assignment]
        node.replicas.logs.directories[1].take_offline("testing", OSError("this disk is made to fail"))
        node.replicas.check_directories()
        await asyncio.sleep(0.5)
        return node.shared.failure

    settings = {
        "log_dirs": f"{tmp_path / 'first'},{tmp_path / 'second'}",
        "log_dir_failure_timeout_ms": "300",
        "controlled_shutdown_enable": "false",
    }
    expected = f"The controller could not be told in time that {tmp_path / 'second'} has failed"
    assert with_node(tmp_path, run, **settings) == (None if is_reachable else expected)


class Deaf:
    """A way to a controller that does not answer."""

    async def send(self, request: Message, *, version: int) -> Message:
        raise RequestTimedOut()


# With a controller that is only a script, on virtual time.

Answer = BrokerRegistrationResponse | BrokerHeartbeatResponse | KafkaError
EPOCH = 40
SESSION_MS = 9_000


class Script:
    """A `ControllerLink` that answers as it is told, and everything well when it is told nothing."""

    leader_id = 1

    def __init__(self, world: VirtualNodeWorld) -> None:
        self._world = world
        self.answers: list[Answer] = []
        self.asked: list[tuple[int, Message]] = []
        self.last: Answer | None = None
        """The answer to everything when the others are used up."""

    async def forward(self, context: RequestContext, request: Message) -> Message:
        raise AssertionError("a lifecycle forwards nothing")

    async def send(self, request: Message, *, version: int) -> Message:
        self.asked.append((self._world.clock.monotonic_ms(), request))
        await self._world.tasks.sleep_ms(1)
        answer = self.answers.pop(0) if self.answers else self.last
        if isinstance(answer, KafkaError):
            raise answer
        if answer is not None:
            return answer
        if isinstance(request, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(broker_epoch=EPOCH)
        return heard(is_fenced=isinstance(request, BrokerHeartbeatRequest) and request.want_fence)

    @property
    def said(self) -> list[str]:
        """What was asked, in short."""
        words = []
        for _, request in self.asked:
            if isinstance(request, BrokerHeartbeatRequest):
                wants = "fence" if request.want_fence else "serve"
                words.append("stop" if request.want_shut_down else wants)
            else:
                words.append("register")
        return words


def heard(*, is_fenced: bool = False, is_caught_up: bool = True, may_stop: bool = False) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=is_fenced, should_shut_down=may_stop)


class Life:
    """A lifecycle with its script."""

    def __init__(self) -> None:
        self.world = virtual_node_world(5)
        self.script = Script(self.world)
        self.config = broker_config()
        self.lifecycle = BrokerLifecycle(
            self.world,
            self.config,
            self.script,
            cluster_id=CLUSTER_ID,
            endpoints=[Endpoint("PLAINTEXT", "localhost", 9092, 0)],
            log_dirs=[],
            metadata_offset=lambda: 7,
            offline_log_dirs=list,
        )

    def run(self, work: Coroutine[Any, Any, None]) -> float:
        """Do this; how long it took, in virtual time."""
        began = self.world.clock.monotonic_ms()
        self.world.loop.run_until_complete(work)
        return self.world.clock.monotonic_ms() - began

    def wait(self, milliseconds: float) -> None:
        async def sleep() -> None:
            await self.world.tasks.sleep_ms(milliseconds)

        self.run(sleep())

    def serve(self) -> None:
        self.run(self.lifecycle.register())
        self.run(self.lifecycle.unfence())
        self.script.asked.clear()


@pytest.fixture
def life() -> Iterator[Life]:
    made = Life()
    yield made
    made.world.life.end()
    made.world.loop.close()


def test_a_killed_broker_registers_again_until_its_last_session_is_over(life: Life) -> None:
    life.script.answers = [DuplicateBrokerRegistration()] * 20
    took_ms = life.run(life.lifecycle.register())
    assert life.script.said[:21] == ["register"] * 21
    assert took_ms == 21 + 100 + 200 + 400 + 17 * RETRY_MS_MAX, "not as often as it can"
    assert life.lifecycle.broker_epoch == EPOCH
    incarnations = {
        request.incarnation_id for _, request in life.script.asked if isinstance(request, BrokerRegistrationRequest)
    }
    assert len(incarnations) == 1, "a registration that was made and not heard of is found again"


def test_a_registration_waits_for_a_controller_and_not_for_ever(life: Life) -> None:
    life.script.last = NotController()
    with pytest.raises(NotController):
        life.run(life.lifecycle.register())
    began, ended = life.script.asked[0][0], life.script.asked[-1][0]
    timeout_ms = life.config.initial_broker_registration_timeout_ms
    assert timeout_ms <= ended - began < timeout_ms + RETRY_MS_MAX + 2


@pytest.mark.parametrize("error", [InconsistentClusterId, InvalidRegistration, UnsupportedVersion])
def test_a_registration_that_can_never_be_is_not_tried_again(life: Life, error: type[KafkaError]) -> None:
    life.script.last = BrokerRegistrationResponse(error_code=error.code)
    with pytest.raises(error):
        life.run(life.lifecycle.register())
    assert life.script.said == ["register"]


def test_a_broker_that_is_not_ready_keeps_its_session_and_asks_to_stay_fenced(life: Life) -> None:
    life.run(life.lifecycle.register())
    life.wait(4 * life.config.broker_heartbeat_interval_ms + 100)
    assert life.script.said == ["register", "fence", "fence", "fence", "fence", "fence"]
    took_ms = life.run(life.lifecycle.unfence())
    assert life.script.said[-1] == "serve"
    assert took_ms <= 2, "the heartbeat did not wait for its time"


def test_a_broker_that_is_behind_its_registration_asks_again_soon(life: Life) -> None:
    life.script.answers = [
        BrokerRegistrationResponse(broker_epoch=EPOCH),
        heard(is_fenced=True, is_caught_up=False),
        heard(is_fenced=True, is_caught_up=False),
    ]
    life.run(life.lifecycle.register())
    assert life.run(life.lifecycle.unfence()) < 40
    assert life.script.said == ["register", "fence", "serve", "serve"]


def test_a_broker_is_caught_up_when_the_controller_says_so_and_goes_once(life: Life) -> None:
    life.script.answers = [
        BrokerRegistrationResponse(broker_epoch=EPOCH),
        *[heard(is_caught_up=False, is_fenced=True)] * 2,
    ]
    life.run(life.lifecycle.register())
    life.run(life.lifecycle.catch_up())
    assert life.script.said == ["register", "fence", "fence", "fence"]
    life.script.last = heard(may_stop=True)
    life.run(life.lifecycle.shut_down())
    life.run(life.lifecycle.shut_down())
    assert life.script.said[4:] == ["stop"]


def test_heartbeats_go_on_through_a_failover(life: Life) -> None:
    life.serve()
    life.script.answers = [NotController(), RequestTimedOut(), NotController()]
    life.wait(life.config.broker_heartbeat_interval_ms + 1000)
    times = [at - life.script.asked[0][0] for at, _ in life.script.asked]
    assert times == [0, 101, 302, 703]
    assert not life.lifecycle.is_fenced


def test_a_broker_whose_registration_is_gone_registers_and_serves_again(life: Life) -> None:
    life.serve()
    life.script.answers = [StaleBrokerEpoch(), BrokerRegistrationResponse(broker_epoch=77)]
    life.wait(life.config.broker_heartbeat_interval_ms + 10)
    assert life.script.said == ["serve", "register", "serve"]
    assert life.lifecycle.broker_epoch == 77


def test_a_controlled_shutdown_survives_the_controller(life: Life) -> None:
    life.serve()
    life.script.answers = [heard(), NotController(), NotController(), heard(), heard(is_fenced=True, may_stop=True)]
    took_ms = life.run(life.lifecycle.shut_down())
    assert life.script.said == ["stop"] * 5
    assert took_ms < 1000


def test_a_broker_stops_when_no_controller_has_answered_for_a_session(life: Life) -> None:
    life.serve()
    life.script.last = NotController()
    took_ms = life.run(life.lifecycle.shut_down())
    assert SESSION_MS <= took_ms < SESSION_MS + 200


def test_a_controller_that_answers_keeps_a_broker_longer_than_a_session_and_not_for_ever(life: Life) -> None:
    life.serve()
    life.script.last = heard()
    took_ms = life.run(life.lifecycle.shut_down())
    assert SHUTDOWN_MS_MAX <= took_ms < SHUTDOWN_MS_MAX + 200


def test_a_broker_without_a_registration_stops_at_once(life: Life) -> None:
    life.serve()
    life.script.last = StaleBrokerEpoch()
    assert life.run(life.lifecycle.shut_down()) <= 2
    assert life.script.said == ["stop"]


def test_news_do_not_wait_for_the_next_heartbeat_nor_get_lost_in_the_one_under_way(life: Life) -> None:
    """A log directory has failed: once while the lifecycle waits, once while a heartbeat is on its way."""
    life.serve()
    life.wait(100)
    assert life.script.said == []
    life.lifecycle.beat_soon()
    life.wait(0)
    assert life.script.said == ["serve"]
    life.lifecycle.beat_soon()
    life.wait(10)
    assert life.script.said == ["serve", "serve"]
    life.wait(life.config.broker_heartbeat_interval_ms - 100)
    assert life.script.said == ["serve", "serve"], "and then as ever"


def test_a_heartbeat_with_news_that_fails_is_not_repeated_without_a_pause(life: Life) -> None:
    life.serve()
    life.script.last = NotController()
    life.lifecycle.beat_soon()
    life.wait(50)
    assert len(life.script.said) == 1
