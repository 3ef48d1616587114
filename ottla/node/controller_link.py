"""The way from a broker to the controller in the same process: a call instead of a connection."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.metadata import Controller, Gauge
from ottla.raft import RaftNode
from ottla.wire import Message

RAFT = "kafka.server:type=raft-metrics,name="


class LocalController:
    """A `ControllerLink` to the controller of this node, which leads the quorum of one."""

    def __init__(self, controller: Controller, raft: RaftNode) -> None:
        self._controller = controller
        self._raft = raft

    @property
    def leader_id(self) -> int:
        return self._raft.leader_id

    def send(self, request: Message, *, version: int) -> Awaitable[Message]:
        return self._controller.handle(request, version=version)

    def gauges(self) -> list[Gauge]:
        raft = self._raft
        return [
            *self._controller.gauges(),
            Gauge(f"{RAFT}current-leader", raft.leader_id),
            Gauge(f"{RAFT}current-epoch", raft.epoch),
            Gauge(f"{RAFT}high-watermark", raft.high_watermark),
            Gauge(f"{RAFT}log-end-offset", raft.log_end_offset),
            Gauge(f"{RAFT}number-of-voters", len(raft.voters.nodes)),
        ]
