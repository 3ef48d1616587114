"""Simulated clients: they speak the real protocol over the virtual network, go on after every failure as real ones do,
and tell the `History` what they were promised and what they were shown."""

from ottla.sim.clients.admin import Admin, Operator
from ottla.sim.clients.client import Client, Topic
from ottla.sim.clients.consumer import Consumer
from ottla.sim.clients.follower import Follower
from ottla.sim.clients.group_offsets import Auditor
from ottla.sim.clients.producer import Producer
from ottla.sim.clients.sink_reader import SinkReader
from ottla.sim.clients.stranger import Stranger
from ottla.sim.clients.worker import Worker

__all__ = [
    "Admin",
    "Auditor",
    "Client",
    "Consumer",
    "Follower",
    "Operator",
    "Producer",
    "SinkReader",
    "Stranger",
    "Topic",
    "Worker",
]
