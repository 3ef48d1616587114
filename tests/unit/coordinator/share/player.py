"""Share groups in the language of transcripts, through a door to any broker (see `tests/unit/coordinator/group/doors`).

    heartbeat <member> [join <topics>] [epoch=<n>]     leave <member>          describe
    produce <topic> <partition> <count>
    fetch <member> [<topic>-<partition> ...] [not=<topic>-<partition>] [max=<records>] [limit] [wait=<ms>] [epoch=<n>]
    acknowledge <member> <topic>-<partition>:<first>-<last>:<types> ... [epoch=<n>]     (fetch takes these as well)
    close <member>                                     wait <ms>
    offsets        alter <topic> <partition> <offset>  delete-offsets <topic>           delete-group

A member's epoch and its session's are kept for it. Answers are printed when they come, after the name of who asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.errors import error_class
from ottla.records import RecordBatchBuilder, batches
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.messages import (
    alter_share_group_offsets,
    delete_groups,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.unit.coordinator.group.doors import Door

ADMIN = "admin"
FETCH_WAIT_MS = "400"


class LateAnswer(Exception):
    """A broker on real time took too long."""


class SharePlayer:
    """Plays on topics whose names begin with `prefix`, and on the group of that name."""

    def __init__(self, door: Door, prefix: str) -> None:
        self.door = door
        self.prefix = prefix
        self.epochs: dict[str, int] = {}
        self.session_epochs: dict[str, int] = {}
        self.ids: dict[str, Uuid] = {}

    def execute(self, command: str, expected_count: int = 0) -> list[str]:
        verb, *words = command.split()
        plain = [word for word in words if "=" not in word]
        named = dict(word.split("=") for word in words if "=" in word)
        getattr(self, "do_" + verb.replace("-", "_"))(*plain, **named)
        answers = self.door.answers()
        if verb == "fetch":  # it answers when there is something, or when its time is up
            for _ in range(int(named.get("wait", FETCH_WAIT_MS)) // 20 + 3):
                if not answers:
                    self.door.run_ms(20)
                    answers = self.door.answers()
        self.door.run_ms(60)
        await_answers = getattr(self.door, "await_answers", None)
        if await_answers is not None and expected_count and not answers:
            await_answers(1)
        lines = []
        for who, answer in answers + self.door.answers():
            lines += [f"{who}: {line}" for line in self.shown(who, answer)]
        return lines

    # Commands

    def do_wait(self, ms: str) -> None:
        self.door.run_ms(float(ms))

    def do_heartbeat(self, member: str, *words: str, epoch: str | None = None) -> None:
        is_join = bool(words) and words[0] == "join"
        if is_join:
            self.epochs[member] = 0
        self.door.begin(
            member,
            share_group_heartbeat.ShareGroupHeartbeatRequest(
                group_id=self.prefix,
                member_id=member,
                member_epoch=self.epochs[member] if epoch is None else int(epoch),
                subscribed_topic_names=[self.topic(name) for name in words[1].split(",")] if is_join else None,
            ),
            1,
        )

    def do_leave(self, member: str) -> None:
        self.do_heartbeat(member, epoch="-1")

    def do_describe(self) -> None:
        self.door.begin(ADMIN, share_group_describe.ShareGroupDescribeRequest(group_ids=[self.prefix]), 1)

    def do_produce(self, topic: str, partition: str, count: str) -> None:
        builder = RecordBatchBuilder()
        for number in range(int(count)):
            builder.append(0, None, f"record {number}".encode())
        data = PartitionProduceData(index=int(partition), records=builder.build())
        topics = [TopicProduceData(name=self.topic(topic), partition_data=[data])]
        self.ask("producer", ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 12, ProduceResponse)

    def do_fetch(
        self,
        member: str,
        *words: str,
        max: str = "500",
        wait: str = FETCH_WAIT_MS,
        epoch: str | None = None,
        **named: str,
    ) -> None:
        topics = self.grouped(word for word in words if word != "limit")
        self.door.begin(
            member,
            share_fetch.ShareFetchRequest(
                group_id=self.prefix,
                member_id=member,
                share_session_epoch=self.session_epoch(member, epoch),
                max_wait_ms=int(wait),
                min_bytes=1,
                max_bytes=1_000_000,
                max_records=int(max),
                batch_size=int(max),
                share_acquire_mode=int("limit" in words),
                topics=[
                    share_fetch.FetchTopic(
                        topic_id,
                        [
                            share_fetch.FetchPartition(
                                partition_index=index,
                                acknowledgement_batches=[share_fetch.AcknowledgementBatch(*one) for one in said],
                            )
                            for index, said in partitions.items()
                        ],
                    )
                    for topic_id, partitions in topics.items()
                ],
                forgotten_topics_data=[
                    share_fetch.ForgottenTopic(topic_id, list(partitions))
                    for topic_id, partitions in self.grouped(named.get("not", "").split()).items()
                ],
            ),
            2,
        )

    def do_acknowledge(self, member: str, *words: str, epoch: str | None = None) -> None:
        has_renewal = any(word.endswith(":4") for word in words)
        self.door.begin(
            member,
            share_acknowledge.ShareAcknowledgeRequest(
                group_id=self.prefix,
                member_id=member,
                share_session_epoch=self.session_epoch(member, epoch),
                is_renew_ack=has_renewal,
                topics=[
                    share_acknowledge.AcknowledgeTopic(
                        topic_id,
                        [
                            share_acknowledge.AcknowledgePartition(
                                index, [share_acknowledge.AcknowledgementBatch(*one) for one in said]
                            )
                            for index, said in partitions.items()
                        ],
                    )
                    for topic_id, partitions in self.grouped(words).items()
                ],
            ),
            2,
        )

    def do_close(self, member: str) -> None:
        self.do_fetch(member, epoch="-1", wait="0")
        self.session_epochs.pop(member, None)

    def do_offsets(self) -> None:
        group = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(self.prefix, None)
        self.door.begin(ADMIN, describe_share_group_offsets.DescribeShareGroupOffsetsRequest(groups=[group]), 1)

    def do_alter(self, topic: str, partition: str, offset: str) -> None:
        of = alter_share_group_offsets
        one = of.AlterShareGroupOffsetsRequestPartition(int(partition), int(offset))
        wanted = of.AlterShareGroupOffsetsRequestTopic(self.topic(topic), [one])
        self.door.begin(ADMIN, of.AlterShareGroupOffsetsRequest(group_id=self.prefix, topics=[wanted]), 0)

    def do_delete_offsets(self, topic: str) -> None:
        wanted = delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(self.topic(topic))
        request = delete_share_group_offsets.DeleteShareGroupOffsetsRequest(group_id=self.prefix, topics=[wanted])
        self.door.begin(ADMIN, request, 0)

    def do_delete_group(self) -> None:
        self.door.begin(ADMIN, delete_groups.DeleteGroupsRequest(groups_names=[self.prefix]), 2)

    # Means

    def topic(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def topic_id(self, name: str) -> Uuid:
        if name not in self.ids:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic(name))])
            answer = self.ask("metadata", request, 12, MetadataResponse)
            self.ids[name] = answer.topics[0].topic_id
        return self.ids[name]

    def ask(self, who: str, request: Message, version: int, cls: type[Any]) -> Any:
        """Ask for something that the transcript does not tell of."""
        self.door.begin(who, request, version)
        for _ in range(100):
            self.door.run_ms(10)
            for answered, answer in self.door.answers():
                assert answered == who, f"{answered} is answered out of turn"
                assert isinstance(answer, cls)
                return answer
        raise LateAnswer(who)

    def name_of(self, topic_id: Uuid) -> str:
        return next((name for name, known in self.ids.items() if known == topic_id), str(topic_id))

    def session_epoch(self, member: str, given: str | None) -> int:
        if given is not None:
            return int(given)
        epoch = self.session_epochs.get(member, 0)
        self.session_epochs[member] = epoch + 1
        return epoch

    def grouped(self, words: Any) -> Mapping[Uuid, dict[int, list[tuple[int, int, list[int]]]]]:
        """`t-0:3-5:1,2` by topic and partition."""
        found: dict[Uuid, dict[int, list[tuple[int, int, list[int]]]]] = {}
        for word in words:
            place, *said = word.split(":")
            name, _, index = place.rpartition("-")
            batches_of = found.setdefault(self.topic_id(name), {}).setdefault(int(index), [])
            if said:
                first, last = said[0].split("-")
                batches_of.append((int(first), int(last), [int(one) for one in said[1].split(",")]))
        return found

    # What is told

    def shown(self, who: str, answer: Any) -> list[str]:
        if getattr(answer, "error_code", 0):
            return [error_name(answer.error_code)]
        return getattr(self, f"show_{type(answer).__name__}")(who, answer)  # type: ignore[no-any-return]

    def show_ShareGroupHeartbeatResponse(self, who: str, answer: Any) -> list[str]:
        self.epochs[who] = answer.member_epoch
        if answer.assignment is None:
            return [f"epoch {answer.member_epoch}"]
        return [f"epoch {answer.member_epoch}, assigned {self.places(answer.assignment.topic_partitions)}"]

    def places(self, topics: Any) -> str:
        found = []
        for topic in topics:
            name = getattr(topic, "topic_name", "").removeprefix(f"{self.prefix}-")
            if not name:
                for known in "tu":
                    self.topic_id(known)
                name = self.name_of(topic.topic_id)
            found += [f"{name}-{index}" for index in topic.partitions]
        return " ".join(sorted(found)) or "nothing"

    def show_ShareGroupDescribeResponse(self, who: str, answer: Any) -> list[str]:
        (group,) = answer.groups
        if group.error_code:
            return [error_name(group.error_code)]
        epochs = f"in epoch {group.group_epoch}, assigned in {group.assignment_epoch}"
        members = sorted(group.members, key=lambda one: one.member_id)
        return [
            f"{group.group_state} {epochs} by {group.assignor_name}",
            *(
                f"  {one.member_id} in epoch {one.member_epoch}: {self.places(one.assignment.topic_partitions)}"
                for one in members
            ),
        ]

    def show_ShareFetchResponse(self, who: str, answer: Any) -> list[str]:
        lines = []
        for topic in answer.responses:
            for one in topic.partitions:
                acquired = one.acquired_records
                runs = " ".join(f"{run.first_offset}-{run.last_offset}x{run.delivery_count}" for run in acquired)
                spans = ",".join(f"{batch.base_offset}-{batch.last_offset}" for batch in batches(one.records or b""))
                line = f"{self.name_of(topic.topic_id)}-{one.partition_index}"
                line += f" {error_name(one.error_code)}" if one.error_code else ""
                line += f" {runs} of {spans}" if runs else ""
                line += f" acknowledged: {error_name(one.acknowledge_error_code)}" if one.acknowledge_error_code else ""
                lines.append(line)
        return sorted(lines) or ["nothing"]

    def show_ShareAcknowledgeResponse(self, who: str, answer: Any) -> list[str]:
        return sorted(
            f"{self.name_of(topic.topic_id)}-{one.partition_index} {error_name(one.error_code)}"
            for topic in answer.responses
            for one in topic.partitions
        ) or ["nothing"]

    def show_DescribeShareGroupOffsetsResponse(self, who: str, answer: Any) -> list[str]:
        (group,) = answer.groups
        if group.error_code:
            return [error_name(group.error_code)]
        lines = []
        for topic in group.topics:
            name = topic.topic_name.removeprefix(f"{self.prefix}-")
            lines += [
                f"{name}-{one.partition_index} from {one.start_offset}, lag {one.lag}" for one in topic.partitions
            ]
        return sorted(lines) or ["nothing"]

    def show_AlterShareGroupOffsetsResponse(self, who: str, answer: Any) -> list[str]:
        return [error_name(one.error_code) for topic in answer.responses for one in topic.partitions]

    def show_DeleteShareGroupOffsetsResponse(self, who: str, answer: Any) -> list[str]:
        return [error_name(topic.error_code) for topic in answer.responses]

    def show_DeleteGroupsResponse(self, who: str, answer: Any) -> list[str]:
        return [error_name(one.error_code) for one in answer.results]


def error_name(code: int) -> str:
    return error_class(code).name if code else "done"
