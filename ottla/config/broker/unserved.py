"""What a user takes for safety and Ottla does not serve yet: TLS, SASL, authorizers and policies.

A node that ignored such a setting would be open to everyone while its operator believes it protected. So a node does
not start with one, and a running node refuses a change to one. Promises: a refusal is one line that names what is
refused and what to do, and never shows a value, which may be a secret; a value that is empty or Kafka's default asks
for nothing and is taken. Called by the composition root, and by the controller for changes.

A change that makes Ottla serve one of these takes it out of here.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.broker.config import BrokerConfig
from ottla.config.broker.synonyms import broker_synonyms
from ottla.errors import InvalidConfig, InvalidRequest

SERVED_PROTOCOLS = ("PLAINTEXT",)

_FAMILIES = ("sasl.", "ssl.")
"""Whoever sets any of these, if only a timeout, has TLS or SASL in mind."""

_SINGLE = frozenset(
    {
        "alter.config.policy.class.name",
        "authorizer.class.name",
        "connections.max.reauth.ms",
        "create.topic.policy.class.name",
        "delegation.token.secret.key",
        "principal.builder.class",
        "security.inter.broker.protocol",
        "security.providers",
        # Kafka's authorizer reads these two; they are in no table.
        "allow.everyone.if.no.acl.found",
        "super.users",
    }
)

FIXED_AT_START = frozenset({"listener.security.protocol.map", "listeners"})
"""Kafka opens and closes ports when these change; Ottla opens its ports once."""


def unserved_security(config: BrokerConfig) -> str | None:
    """Why a node must not start with these settings, in one line; None where it may."""
    protocols = {one.name: one.security_protocol for one in config.listener_list}
    # A node that only connects to controllers would do that in the clear as well.
    for name in config.controller_listener_names:
        protocols.setdefault(name.upper(), config.security_protocols.get(name.upper(), "PLAINTEXT"))
    listeners = [
        f"listener {name} ({protocol})" for name, protocol in protocols.items() if protocol not in SERVED_PROTOCOLS
    ]
    if listeners:
        return (
            f"Ottla does not speak TLS or SASL yet, and would serve in the clear to everyone: {', '.join(listeners)}. "
            "Map it to PLAINTEXT in listener.security.protocol.map if only trusted clients reach it, or remove it "
            "from listeners."
        )
    names = sorted(name for name, value in config.originals.items() if is_unserved(name, value))
    if names:
        return (
            f"Ottla does not enforce these settings yet, and would serve everyone in spite of them: {', '.join(names)}."
            " Remove them if only trusted clients reach this node."
        )
    return None


def refuse_unserved_changes(changes: Mapping[str, str | None]) -> None:
    """`InvalidRequest` when a broker's settings, changed while it runs, would ask for what is not served.

    None takes a setting back, which is always allowed: the metadata log of a Kafka may hold any of them.
    """
    given = {name: value for name, value in changes.items() if value is not None}
    names = sorted(name for name, value in given.items() if is_unserved(name, value))
    if names:
        raise InvalidRequest(
            f"Ottla does not enforce these settings yet, and would serve everyone in spite of them: {', '.join(names)}."
        )
    fixed = sorted(FIXED_AT_START.intersection(given))
    if fixed:
        raise InvalidRequest(
            f"Ottla opens its listeners when it starts: change {', '.join(fixed)} in server.properties, and restart."
        )


def is_unserved(name: str, value: str) -> bool:
    """Whether a setting, of the node or of one listener, asks for safety that Ottla does not give."""
    own = broker_synonyms(name)[-1] if name.startswith("listener.name.") else name
    if not value.strip() or not (own in _SINGLE or own.startswith(_FAMILIES)):
        return False
    setting = BrokerConfig.settings.get(own)
    if setting is None:
        return True
    try:
        return bool(setting.read(own, value) != setting.default)
    except InvalidConfig:
        return True  # a listener's own value is not checked elsewhere
