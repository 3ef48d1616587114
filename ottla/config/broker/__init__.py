"""The settings of a node, in tables by what they are about, and `BrokerConfig`, which is all of them."""

from ottla.config.broker.config import BrokerConfig
from ottla.config.broker.endpoints import ListenerSpec, Voter
from ottla.config.broker.not_acted_on import NOT_ACTED_ON, names_without_effect
from ottla.config.broker.warnings import start_warnings

__all__ = ["NOT_ACTED_ON", "BrokerConfig", "ListenerSpec", "Voter", "names_without_effect", "start_warnings"]
