"""Share sessions: a member of a share group that fetches the same partitions again and again names only what changes.

Promises: a request out of turn changes nothing; the number of sessions is bounded; a member whose connection is gone is
gone too: what it has acquired is given back, and when it was the group's last on this node, the group's share
partitions are let go. Called by the handlers of ShareFetch and ShareAcknowledge.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from ottla.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)
from ottla.replica.share import Index
from ottla.server.context import Connection

log = logging.getLogger(__name__)

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1

Key = tuple[str, str]
"""Group and member."""


def next_epoch(epoch: int) -> int:
    """The one after; it begins anew where it cannot grow any more."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


class ShareSession:
    """What one member fetches. A partition is told of when it has records or an error, and where it is True here."""

    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(self, key: Key, partitions: Iterable[Index], connection: Connection) -> None:
        self.key = key
        self.partitions: dict[Index, bool] = dict.fromkeys(partitions, False)
        self.connection = connection
        self.epoch = next_epoch(INITIAL_EPOCH)
        """What the next request must have."""

    def note(self, index: Index, *, has_records: bool, has_error: bool) -> bool:
        """Remember what is told of a partition; False where it can be left out."""
        is_due = self.partitions.get(index)
        if is_due is None:
            return has_records or has_error  # forgotten meanwhile
        self.partitions[index] = has_error
        if has_records:
            # To the end of the line.
            del self.partitions[index]
            self.partitions[index] = has_error
        return has_records or has_error or is_due


class ShareContext:
    """One request's turn in its session."""

    __slots__ = ("_epoch", "is_final", "is_new", "session", "wanted")

    def __init__(self, session: ShareSession | None, wanted: Sequence[Index], *, is_new: bool, is_final: bool) -> None:
        self.session = session
        self.wanted = wanted
        """The partitions to fetch from; none in the last request of a session."""
        self.is_new = is_new
        self.is_final = is_final
        self._epoch = 0 if session is None else session.epoch

    def note(self, index: Index, *, has_records: bool, has_error: bool) -> bool:
        """Whether a partition belongs into the response."""
        if self.session is None or self.is_new:
            return True
        return self.session.note(index, has_records=has_records, has_error=has_error)

    def check_turn(self) -> None:
        """`InvalidShareSessionEpoch` when another request of the session has overtaken this one."""
        if self.session is not None and not self.is_new and self.session.epoch != self._epoch:
            raise InvalidShareSessionEpoch


class ShareSessions:
    """The sessions of a node.

    `on_leave` is told group, member and partitions of a member that has gone, `on_group_gone` of a group that has no
    session any more.
    """

    def __init__(
        self,
        slots_max: Callable[[], int],
        on_leave: Callable[[str, str, list[Index]], object],
        on_group_gone: Callable[[str], object],
    ) -> None:
        self._slots_max = slots_max
        self._on_leave = on_leave
        self._on_group_gone = on_group_gone
        self._sessions: dict[Key, ShareSession] = {}
        self._by_connection: dict[Connection, ShareSession] = {}
        self.eviction_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(
        self,
        key: Key,
        epoch: int,
        wanted: Sequence[Index],
        forgotten: Iterable[Index],
        connection: Connection,
        *,
        has_acknowledgements: bool,
    ) -> ShareContext:
        """The turn of a fetch. Raises the error that the whole request is answered with."""
        if epoch == FINAL_EPOCH:
            return ShareContext(self._find(key), (), is_new=False, is_final=True)
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise InvalidRequest("The first request of a share session cannot acknowledge anything.")
            self._remove(key)
            return ShareContext(self._begin(key, wanted, connection), wanted, is_new=True, is_final=False)
        session = self._find(key)
        self._turn(session, epoch)
        for index in wanted:
            session.partitions.setdefault(index, True)
        for index in forgotten:
            session.partitions.pop(index, None)
        return ShareContext(session, list(session.partitions), is_new=False, is_final=False)

    def acknowledge(self, key: Key, epoch: int) -> None:
        """The turn of an acknowledgement without a fetch."""
        if epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpoch
        session = self._find(key)
        if epoch != FINAL_EPOCH:
            self._turn(session, epoch)

    def release(self, key: Key) -> None:
        """The member ends its session: what it has acquired is given back."""
        session = self._remove(key)
        if session is not None:
            self._on_leave(*key, list(session.partitions))

    def _find(self, key: Key) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFound
        return session

    def _turn(self, session: ShareSession, epoch: int) -> None:
        if session.epoch != epoch:
            raise InvalidShareSessionEpoch
        session.epoch = next_epoch(epoch)

    def _begin(self, key: Key, wanted: Sequence[Index], connection: Connection) -> ShareSession:
        if len(self._sessions) >= self._slots_max():
            log.error("[ShareSessionCache] Could not create a share session for group %s member %s", *key)
            raise ShareSessionLimitReached
        session = self._sessions[key] = ShareSession(key, wanted, connection)
        if connection not in self._by_connection:
            connection.when_closed(lambda: self._on_closed(connection))
        self._by_connection[connection] = session
        return session

    def _remove(self, key: Key) -> ShareSession | None:
        return self._sessions.pop(key, None)

    def _on_closed(self, connection: Connection) -> None:
        session = self._by_connection.pop(connection)
        if self._sessions.get(session.key) is session:
            self.eviction_count += 1
            self.release(session.key)
        group_id = session.key[0]
        if not any(group == group_id for group, _ in self._sessions):
            self._on_group_gone(group_id)
