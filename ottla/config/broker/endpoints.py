"""Listeners, voters and the other addresses in the settings: how they are written, and what they mean.

Promises: what Kafka's parser takes is taken; what it refuses raises `InvalidConfig` with the entry in it. An empty
host is kept empty: for a listener it means every interface, for an advertised one this node's own name.
Called by `broker.config`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.errors import InvalidConfig

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
NON_ROUTABLE_HOST = "0.0.0.0"

_LISTENER = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
_HOST = re.compile(r"[0-9a-zA-Z\-%._:]*")


class ListenerSpec(NamedTuple):
    """One listener. The name is in capitals, as it is in the metadata log."""

    name: str
    host: str
    port: int
    security_protocol: str


class Voter(NamedTuple):
    """One member of a fixed quorum."""

    id: int
    host: str
    port: int


def listener_name(entry: str) -> str:
    """The name in `NAME://host:port`, in capitals."""
    name, colon, _ = entry.partition(":")
    if not colon:
        raise InvalidConfig(f"Unable to parse a listener name from {entry}")
    return name.upper()


def parse_listeners(
    entries: Iterable[str], protocols: Mapping[str, str], *, distinct_ports: bool
) -> list[ListenerSpec]:
    """The listeners of `listeners` or `advertised.listeners`, with the protocol that `protocols` has for each."""
    entries = list(entries)
    try:
        listeners = [_parse_listener(entry, protocols) for entry in entries]
        _check_distinct(listeners, f"[{', '.join(entries)}]", distinct_ports=distinct_ports)
    except InvalidConfig as error:
        raise InvalidConfig(f"Error creating broker listeners from '[{', '.join(entries)}]': {error}") from None
    return listeners


def _parse_listener(entry: str, protocols: Mapping[str, str]) -> ListenerSpec:
    parts = _LISTENER.fullmatch(entry)
    if parts is None:
        raise InvalidConfig(f"Unable to parse {entry} to a broker endpoint")
    name = parts[1].upper()
    if name not in protocols:
        raise InvalidConfig(f"No security protocol defined for listener {name}")
    return ListenerSpec(name, parts[2], int(parts[3]), protocols[name])


def _check_distinct(listeners: list[ListenerSpec], entries: str, *, distinct_ports: bool) -> None:
    if len({listener.name for listener in listeners}) != len(listeners):
        raise InvalidConfig(f"Each listener must have a different name, listeners: {entries}")
    if not distinct_ports:
        return
    by_port: dict[int, list[ListenerSpec]] = {}
    for listener in listeners:
        if listener.port != 0:  # 0 asks the system for a free port, as often as one likes
            by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        if len(sharing) > 1:
            _check_shared_port(port, sharing, entries)


def _check_shared_port(port: int, listeners: list[ListenerSpec], entries: str) -> None:
    """Two listeners may share a port only when one is on IPv4 and the other on IPv6."""
    versions = [_ip_version(listener.host) for listener in listeners]
    if versions.count(None) > 1:
        raise InvalidConfig(f"Each listener must have a different port, listeners: {entries}")
    if len(versions) - versions.count(None) != 2:
        raise InvalidConfig(
            "Each listener must have a different port unless exactly one listener has an IPv4 address and the other "
            f"IPv6 address, listeners: {entries}, port: {port}"
        )
    if sorted(versions, key=str) != [4, 6]:
        raise InvalidConfig(
            "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
            f"listeners: {entries}, port: {port}"
        )


def _ip_version(host: str) -> int | None:
    """4 or 6 for an address in digits, None for a name."""
    import ipaddress  # here, because it takes 5 ms and next to nobody shares a port

    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return None


def parse_map(name: str, text: str) -> dict[str, str]:
    """`a:1, b:2`, with the last colon of each pair between name and value, because addresses have colons too."""
    pairs: dict[str, str] = {}
    for pair in re.split(r"\s*,\s*", text) if text else ():
        key, colon, value = pair.rpartition(":")
        if not colon:
            raise InvalidConfig(f"Error parsing configuration property '{name}': {pair!r} has no ':'")
        pairs[key.strip()] = value.strip()
    return pairs


def parse_protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`: listener name in capitals -> security protocol."""
    name = "listener.security.protocol.map"
    protocols = {listener.upper(): protocol for listener, protocol in parse_map(name, text).items()}
    for protocol in protocols.values():
        if protocol.upper() not in SECURITY_PROTOCOLS:
            raise InvalidConfig(f"Invalid security protocol `{protocol}` defined in {name}")
    return {listener: protocol.upper() for listener, protocol in protocols.items()}


def parse_voters(entries: Iterable[str]) -> list[Voter]:
    """`controller.quorum.voters`, by id."""
    voters = {}
    for entry in entries:
        voter = _parse_voter(entry)
        voters[voter.id] = voter
    return sorted(voters.values(), key=lambda voter: voter.id)


def _parse_voter(entry: str) -> Voter:
    form = "Each entry should be in the form `{id}@{host}:{port}`."
    number, at, address = entry.partition("@")
    if not at or not address or "@" in address:
        raise InvalidConfig(f"Invalid configuration value for controller.quorum.voters. {form}")
    if not re.fullmatch(r"[+-]?[0-9]+", number):
        raise InvalidConfig(f"Failed to parse voter ID as an integer from {number}")
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise InvalidConfig(
            f"Failed to parse host name from entry {entry} for the configuration controller.quorum.voters. {form}"
        )
    return Voter(int(number), parts[1], int(parts[2]))


def parse_address(entry: str) -> tuple[str, int] | None:
    """`host:port`, also `[::1]:port`; None when it is neither."""
    parts = _ADDRESS.fullmatch(entry)
    return None if parts is None else (parts[1], int(parts[2]))


def is_host(text: str) -> bool:
    """Whether the text has only the characters of a host name or address."""
    return _HOST.fullmatch(text) is not None


def check_voters(name: str, entries: tuple[str, ...]) -> None:
    parse_voters(entries)


def check_bootstrap_servers(name: str, entries: tuple[str, ...]) -> None:
    for entry in entries:
        if parse_address(entry) is None:
            raise InvalidConfig(
                f"Failed to parse host name from {entry} for the configuration {name}. "
                'Each entry should be in the form "{host}:{port}"'
            )


def parse_bootstrap_servers(entries: Iterable[str]) -> list[tuple[str, int]]:
    """`controller.quorum.bootstrap.servers`: hosts and ports."""
    return [found for entry in entries if (found := parse_address(entry)) is not None]
