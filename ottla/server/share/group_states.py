"""`GroupStates`: what takes both the group coordinator and the share coordinator: state of partitions, and offsets.

The group coordinator writes down what is to happen, the share coordinator does it, and the group coordinator writes
down that it is done. If a node dies in between, the next heartbeat or the next request begins it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ottla.coordinator.group import GroupCoordinator
from ottla.coordinator.share import Persister, SharePartitionKey, StateSummary
from ottla.errors import KafkaError
from ottla.server.promises import chained, gathered, mapped, recovered
from ottla.types import Uuid
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic
from ottla.world import Promise, Tasks

log = logging.getLogger(__name__)

Partitions = Mapping[Uuid, Collection[int]]
Outcomes = dict[tuple[Uuid, int], KafkaError | None]


class GroupStates:
    """See the module."""

    def __init__(self, groups: GroupCoordinator, persister: Persister, tasks: Tasks) -> None:
        self._groups = groups
        self._persister = persister
        self._tasks = tasks

    def initialize(self, group_id: str, state_epoch: int, topics: Partitions) -> None:
        """Make the state of partitions that are new to a group. Nobody waits: heartbeats tell what came of it."""
        offsets = {(topic_id, index): -1 for topic_id, indexes in topics.items() for index in indexes}

        def tell(outcomes: Outcomes) -> Promise[None] | None:
            errors = [error for error in outcomes.values() if error is not None]
            if not errors:
                return self._write_initialized(group_id, topics)
            log.warning("[GroupCoordinator] The state of share group %s could not be made: %s", group_id, errors[0])
            name = "uninitialize-share-group-state"
            return self._groups.write(group_id, name, lambda shard: shard.share.offsets.failed(group_id, topics))

        chained(self._tasks, self._initialize(group_id, state_epoch, offsets), tell).add_done_callback(_log_failure)

    def _write_initialized(self, group_id: str, topics: Partitions) -> Promise[None]:
        name = "initialize-share-group-state"
        return self._groups.write(group_id, name, lambda shard: shard.share.offsets.initialized(group_id, topics))

    def _initialize(
        self, group_id: str, state_epoch: int, offsets: Mapping[tuple[Uuid, int], int]
    ) -> Promise[Outcomes]:
        def begin(topic_id: Uuid, index: int, start_offset: int) -> Callable[[], Promise[None]]:
            key = SharePartitionKey(group_id, topic_id, index)
            return lambda: self._persister.initialize(key, state_epoch=state_epoch, start_offset=start_offset)

        return self._each({place: begin(*place, offset) for place, offset in offsets.items()})

    def _each(self, begins: Mapping[tuple[Uuid, int], Callable[[], Promise[None]]]) -> Promise[Outcomes]:
        """Ask the share coordinator about each partition; what came of each."""
        tasks = self._tasks

        def outcome(begin: Callable[[], Promise[None]]) -> Promise[KafkaError | None]:
            return recovered(tasks, lambda: mapped(tasks, begin(), _no_error), lambda error: error)

        answers = gathered(tasks, [outcome(begin) for begin in begins.values()])
        return mapped(tasks, answers, lambda errors: dict(zip(begins, errors, strict=True)))

    # Offsets

    def alter_offsets(
        self, group_id: str, wanted: Sequence[AlterShareGroupOffsetsRequestTopic]
    ) -> Promise[list[AlterShareGroupOffsetsResponseTopic]]:
        """Let a group begin elsewhere; what came of each partition."""
        decided = self._groups.write(
            group_id, "share-group-offsets-alter", lambda shard: shard.share.offsets.alter(group_id, wanted)
        )

        return chained(
            self._tasks,
            decided,
            lambda altered: chained(
                self._tasks,
                self._initialize(group_id, altered.state_epoch, altered.start_offsets),
                lambda found: self._altered(group_id, altered.topics, found),
            ),
        )

    def _altered(
        self, group_id: str, topics: list[AlterShareGroupOffsetsResponseTopic], outcomes: Outcomes
    ) -> list[AlterShareGroupOffsetsResponseTopic] | Promise[list[AlterShareGroupOffsetsResponseTopic]]:
        for topic in topics:
            for one in topic.partitions:
                error = outcomes.get((topic.topic_id, one.partition_index))
                if error is not None:
                    one.error_code, one.error_message = error.code, error.message
        if not outcomes or any(error is not None for error in outcomes.values()):
            return topics
        done: dict[Uuid, list[int]] = {}
        for topic_id, index in outcomes:
            done.setdefault(topic_id, []).append(index)
        return mapped(self._tasks, self._write_initialized(group_id, done), lambda _: topics)

    def delete_offsets(
        self, group_id: str, names: Sequence[str]
    ) -> Promise[list[DeleteShareGroupOffsetsResponseTopic]]:
        """Forget where a group is in these topics; what came of each."""
        decided = self._groups.write(
            group_id,
            "initiate-delete-share-group-offsets",
            lambda shard: shard.share.offsets.begin_deletion(group_id, names),
        )

        return chained(
            self._tasks,
            decided,
            lambda deletion: chained(
                self._tasks,
                self._delete(group_id, deletion.partitions),
                lambda found: self._deleted(group_id, deletion.refused, deletion.partitions, found),
            ),
        )

    def _delete(self, group_id: str, partitions: Partitions) -> Promise[Outcomes]:
        def begin(topic_id: Uuid, index: int) -> Callable[[], Promise[None]]:
            return lambda: self._persister.delete(SharePartitionKey(group_id, topic_id, index))

        return self._each(
            {(topic_id, index): begin(topic_id, index) for topic_id, indexes in partitions.items() for index in indexes}
        )

    def _deleted(
        self,
        group_id: str,
        refused: list[DeleteShareGroupOffsetsResponseTopic],
        partitions: Partitions,
        outcomes: Outcomes,
    ) -> list[DeleteShareGroupOffsetsResponseTopic] | Promise[list[DeleteShareGroupOffsetsResponseTopic]]:
        by_id = self._groups.runtime.image.topics.by_id
        done: list[DeleteShareGroupOffsetsResponseTopic] = []
        for topic_id, indexes in partitions.items():
            name = by_id[topic_id].name if topic_id in by_id else ""
            errors = [error for index in indexes if (error := outcomes[topic_id, index]) is not None]
            if errors:
                refused.append(DeleteShareGroupOffsetsResponseTopic(name, topic_id, errors[0].code, errors[0].message))
            else:
                done.append(DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id))
        if not done:
            return refused
        gone = {one.topic_id for one in done}
        written = self._groups.write(
            group_id,
            "complete-delete-share-group-offsets",
            lambda shard: shard.share.offsets.end_deletion(group_id, gone),
        )
        return mapped(self._tasks, written, lambda _: done + refused)

    def summaries(self, group_id: str, partitions: Partitions) -> Promise[dict[tuple[Uuid, int], StateSummary | None]]:
        """How far a group has come in these partitions; None where that could not be found out."""
        tasks = self._tasks
        places = [(topic_id, index) for topic_id, indexes in partitions.items() for index in indexes]

        def ask(place: tuple[Uuid, int]) -> Promise[StateSummary | None]:
            key = SharePartitionKey(group_id, *place)
            return recovered(
                tasks, lambda: mapped(tasks, self._persister.read_summary(key), _as_found), lambda error: None
            )

        answers = gathered(tasks, [ask(place) for place in places])
        return mapped(tasks, answers, lambda found: dict(zip(places, found, strict=True)))

    # Groups

    def delete_states(self, group_ids: Iterable[str]) -> Promise[dict[str, KafkaError]]:
        """Forget the state of share groups that are about to be deleted; those for which that failed, with the reason.

        Groups of other protocols are passed over.
        """
        by_index: dict[int, list[str]] = {}
        for group_id in group_ids:
            by_index.setdefault(self._groups.index_of(group_id), []).append(group_id)
        answers = [self._delete_states(index, ids) for index, ids in by_index.items()]
        return mapped(
            self._tasks,
            gathered(self._tasks, answers),
            lambda failures: {group_id: error for some in failures for group_id, error in some.items()},
        )

    def _delete_states(self, index: int, group_ids: list[str]) -> Promise[dict[str, KafkaError]]:
        tasks = self._tasks

        def go_on(partitions: Mapping[str, Partitions]) -> Promise[dict[str, KafkaError]]:
            outcomes = gathered(tasks, [self._delete(group_id, one) for group_id, one in partitions.items()])
            return mapped(tasks, outcomes, lambda found: _failures(partitions, found))

        return recovered(
            tasks,
            lambda: chained(
                tasks,
                self._groups.runtime.write(
                    index, "delete-share-groups", lambda shard: shard.share.offsets.begin_group_deletion(group_ids)
                ),
                go_on,
            ),
            lambda error: {},  # whoever deletes the groups meets the same error
        )


def _failures(group_ids: Iterable[str], outcomes: Sequence[Outcomes]) -> dict[str, KafkaError]:
    failures: dict[str, KafkaError] = {}
    for group_id, found in zip(group_ids, outcomes, strict=True):
        errors = [error for error in found.values() if error is not None]
        if errors:
            failures[group_id] = errors[0]
    return failures


def _no_error(_: None) -> KafkaError | None:
    return None


def _as_found(summary: StateSummary) -> StateSummary | None:
    return summary


def _log_failure(done: Promise[None]) -> None:
    """Nobody waits: the group's next heartbeats try again."""
    try:
        done.result()
    except KafkaError as error:
        log.warning("[GroupCoordinator] The state of a share group could not be written down: %s", error)
