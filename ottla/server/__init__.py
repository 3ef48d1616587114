"""The server: sessions, dispatch and one handler a file. See README.md beside this file.

The front door is light: handlers are imported when the first request of their API arrives, envelopes where there are
other nodes, and what shows metrics where somebody is to see them.
"""

from typing import TYPE_CHECKING

from ottla.lazy import front_door
from ottla.server.broker import BrokerServices, ControllerLink
from ottla.server.connection_rate import CREATION_RATE
from ottla.server.context import BrokerContext, CloseConnection, Connection, ControllerContext, RequestContext
from ottla.server.controller_services import ControllerServices, Decider, QuorumMember
from ottla.server.dispatch import Dispatcher, Route
from ottla.server.fetch_session import FetchSessions
from ottla.server.metrics import Metrics
from ottla.server.node_context import NodeContext, QuorumView
from ottla.server.peers import Peers
from ottla.server.principal import ANONYMOUS, Principal
from ottla.server.producer_ids import take_producer_id
from ottla.server.session import Session
from ottla.server.sockets import SocketServer
from ottla.server.topic_creation import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from ottla.server.transaction_markers import LocalMarkers, RoutedMarkers

if TYPE_CHECKING:
    from ottla.server.envelope import has_error, unwrap_answer, wrap_request
    from ottla.server.exposition import MetricsServer

_LAZY = {
    **dict.fromkeys(["has_error", "unwrap_answer", "wrap_request"], "ottla.server.envelope"),
    "MetricsServer": "ottla.server.exposition",
}

__all__ = [
    "ANONYMOUS",
    "BrokerContext",
    "BrokerServices",
    "CREATION_RATE",
    "CloseConnection",
    "Connection",
    "ControllerContext",
    "ControllerLink",
    "ControllerServices",
    "Decider",
    "Dispatcher",
    "FetchSessions",
    "GROUP_TOPIC",
    "LocalMarkers",
    "Metrics",
    "MetricsServer",
    "NodeContext",
    "Peers",
    "Principal",
    "QuorumMember",
    "QuorumView",
    "RequestContext",
    "Route",
    "RoutedMarkers",
    "SHARE_TOPIC",
    "Session",
    "SocketServer",
    "TRANSACTION_TOPIC",
    "has_error",
    "take_producer_id",
    "unwrap_answer",
    "wrap_request",
]

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _LAZY)
