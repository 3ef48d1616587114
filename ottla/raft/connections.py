"""The requests under way: one to a node at a time, with a pause after a failure (Kafka's RequestManager).

Promises: a response is taken once, and only while it is still wanted: a change of state forgets what was asked before,
so an answer to the old question is never taken for one to the new.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.raft.states import NEVER


class _Connection(NamedTuple):
    request_id: int | None
    """None while it pauses."""
    until_ms: float
    """When the request has timed out, or the pause is over."""


class Connections:
    def __init__(self, *, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        self.request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._by_node: dict[int, _Connection] = {}
        self._request_count = 0
        self._failed: set[int] = set()

    def begin(self, node_id: int, now_ms: float) -> int:
        """The id of a request that is sent now."""
        self._request_count += 1
        self._by_node[node_id] = _Connection(self._request_count, now_ms + self.request_timeout_ms)
        return self._request_count

    def node_of(self, request_id: int) -> int | None:
        """Whom that request was sent to, if its answer is still wanted."""
        for node_id, connection in self._by_node.items():
            if connection.request_id == request_id:
                return node_id
        return None

    def end(self, node_id: int, *, is_success: bool, now_ms: float) -> None:
        """The request to that node is answered."""
        self._by_node.pop(node_id, None)
        if is_success:
            self._failed.discard(node_id)
        else:
            self._failed.add(node_id)
            self._by_node[node_id] = _Connection(None, now_ms + self._retry_backoff_ms)

    def expire(self, now_ms: float) -> None:
        """Forget the requests that have timed out and the pauses that are over."""
        gone = [node_id for node_id, connection in self._by_node.items() if now_ms >= connection.until_ms]
        for node_id in gone:
            if self._by_node[node_id].request_id is not None:
                self._failed.add(node_id)
            del self._by_node[node_id]

    def has_timed_out(self, node_id: int, now_ms: float) -> bool:
        found = self._by_node.get(node_id)
        return found is not None and found.request_id is not None and now_ms >= found.until_ms

    def has_failed(self, node_id: int) -> bool:
        """Whether the last request to it that has ended had no answer that was of use."""
        return node_id in self._failed

    def is_free(self, node_id: int) -> bool:
        return node_id not in self._by_node

    def is_pausing(self, node_id: int) -> bool:
        found = self._by_node.get(node_id)
        return found is not None and found.request_id is None

    @property
    def is_any_under_way(self) -> bool:
        return any(connection.request_id is not None for connection in self._by_node.values())

    @property
    def deadline_ms(self) -> float:
        """When the next of them times out or ends its pause."""
        return min((connection.until_ms for connection in self._by_node.values()), default=NEVER)

    def reset(self) -> None:
        self._by_node.clear()
        self._failed.clear()
