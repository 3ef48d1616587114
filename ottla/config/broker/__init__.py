"""The settings of a node, in tables by what they are about, and `BrokerConfig`, which is all of them."""

from ottla.config.broker.checks import RACK_AWARE_SELECTOR
from ottla.config.broker.config import BrokerConfig
from ottla.config.broker.endpoints import ListenerSpec, Voter
from ottla.config.broker.not_acted_on import NOT_ACTED_ON, names_without_effect
from ottla.config.broker.unserved import FIXED_AT_START, is_unserved, refuse_unserved_changes, unserved_security
from ottla.config.broker.warnings import start_warnings

__all__ = [
    "FIXED_AT_START",
    "NOT_ACTED_ON",
    "RACK_AWARE_SELECTOR",
    "BrokerConfig",
    "ListenerSpec",
    "Voter",
    "is_unserved",
    "names_without_effect",
    "refuse_unserved_changes",
    "start_warnings",
    "unserved_security",
]
