"""How many connections there may be: in all, of a listener, of an address.

Promises, as Kafka's: an address above its limit is refused; a listener or a broker at its limit takes no more until one
closes, and the connections behind it wait in the system's queue. A rule without I/O; `sockets` acts on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.errors import InvalidConfig


class ConnectionLimits:
    """Counts connections and knows the limits."""

    def __init__(self, *, total_max: int, per_ip_max: int, per_ip_overrides: Mapping[str, int]) -> None:
        self.total_max = total_max
        self.per_ip_max = per_ip_max
        self.per_ip_overrides = dict(per_ip_overrides)
        self.listener_max: dict[str, int] = {}
        """Limits of single listeners (`listener.name.NAME.max.connections`)."""
        self.total = 0
        self._of_listener: dict[str, int] = {}
        self._of_ip: dict[str, int] = {}

    def has_room(self, listener: str) -> bool:
        """Whether another connection may be taken from the queue."""
        own_max = self.listener_max.get(listener)
        return self.total < self.total_max and (own_max is None or self._of_listener.get(listener, 0) < own_max)

    def ip_max(self, ip: str) -> int:
        return self.per_ip_overrides.get(ip, self.per_ip_max)

    def admit(self, listener: str, ip: str) -> bool:
        """Count a connection, unless its address has too many already."""
        count = self._of_ip.get(ip, 0)
        if count >= self.ip_max(ip):
            return False
        self._of_ip[ip] = count + 1
        self._of_listener[listener] = self._of_listener.get(listener, 0) + 1
        self.total += 1
        return True

    def release(self, listener: str, ip: str) -> None:
        """A connection that was admitted is gone."""
        self.total -= 1
        self._of_listener[listener] -= 1
        count = self._of_ip[ip] - 1
        if count:
            self._of_ip[ip] = count
        else:
            del self._of_ip[ip]  # addresses come and go: the table holds only those that are connected


def parse_overrides(text: str) -> dict[str, int]:
    """`address:count,...` of `max.connections.per.ip.overrides`; addresses are numeric, as connections show them."""
    found = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = item.rpartition(":")
        if not host or not count.strip().isdigit():
            raise InvalidConfig(
                f"Invalid value {text} for configuration max.connections.per.ip.overrides: "
                f"{item!r} is not an address and a count, as in 127.0.0.1:200"
            )
        found[host.strip().strip("[]")] = int(count)
    return found
