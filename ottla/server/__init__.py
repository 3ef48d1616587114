"""The server: sessions, dispatch and one handler a file. See README.md beside this file.

The front door is light: handlers are imported when the first request of their API arrives.
"""

from ottla.server.broker import Broker, ControllerLink
from ottla.server.connection_rate import CREATION_RATE
from ottla.server.context import CloseConnection, Connection, RequestContext
from ottla.server.dispatch import Dispatcher, Route
from ottla.server.exposition import MetricsServer
from ottla.server.fetch_session import FetchSessions
from ottla.server.metrics import Metrics
from ottla.server.producer_ids import take_producer_id
from ottla.server.session import Session
from ottla.server.sockets import SocketServer
from ottla.server.topic_creation import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from ottla.server.transaction_markers import LocalMarkers

__all__ = [
    "CREATION_RATE",
    "GROUP_TOPIC",
    "SHARE_TOPIC",
    "TRANSACTION_TOPIC",
    "Broker",
    "CloseConnection",
    "Connection",
    "ControllerLink",
    "Dispatcher",
    "FetchSessions",
    "LocalMarkers",
    "Metrics",
    "MetricsServer",
    "RequestContext",
    "Route",
    "Session",
    "SocketServer",
    "take_producer_id",
]
