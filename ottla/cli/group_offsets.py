"""Setting and deleting the offsets of groups: `ottla consumer-groups --reset-offsets` and `--delete-offsets`.

Promises: without `--execute` nothing is changed; offsets beyond what a partition holds become its nearest end, with a
line on standard error; only groups without members are changed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from ottla.cli.consumer_groups import MISSING, Failed, Groups, print_error
from ottla.cli.java_order import fitted_string_order, map_order, partition_hash, string_order
from ottla.cli.tool import Refused, java_text, one_line, print_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ottla.client.admin import ConsumerGroupDescription, OffsetSpec, Outcome
    from ottla.errors import KafkaError
    from ottla.types import TopicPartition

    Plan = dict[TopicPartition, int]

DURATION = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?(T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+(?:\.\d{0,9})?)S)?)?", re.IGNORECASE
)
DATETIME = re.compile(r"\d{4,}-\d{1,2}-\d{1,2}T\d{1,2}:\d{1,2}:\d{1,2}\.(\d{1,3})\d*(Z|[+-]\d{2}(?::?\d{2})?)")


def reset_offsets(groups: Groups) -> None:
    options = groups.options
    outcomes = groups.admin.describe_consumer_groups(groups.group_ids(), timeout=groups.timeout)
    plans: dict[str, Plan] = {}
    for group_id in fitted_string_order(outcomes):
        plans[group_id] = _plan_of(groups, group_id, outcomes[group_id])
    plans = {group_id: plans[group_id] for group_id in string_order(plans)}
    if options["output"] == "json":
        print_json([
            {"group": group_id, "topic": one.topic, "partition": one.partition, "newOffset": plan[one]}
            for group_id, plan in plans.items()
            for one in plan
        ])  # fmt: skip
    elif options["export"]:
        click.echo(_as_csv(plans, with_groups=len(options["group"]) != 1))
    else:
        _print_plans(plans)


def _plan_of(groups: Groups, group_id: str, described: Outcome[ConsumerGroupDescription]) -> Plan:
    """What is set for one group, and set it if that was asked for."""
    from ottla.client.admin import GroupState
    from ottla.errors import GroupIdNotFound

    # A group that is not there yet may be given offsets to begin with.
    if not isinstance(described.error, GroupIdNotFound):
        state = described.result().state
        if state not in (GroupState.EMPTY, GroupState.DEAD):
            print_error(
                f"Assignments can only be reset if the group '{group_id}' is inactive, but the current state is "
                f"{state.value}."
            )
            return {}
    plan = _prepare(groups, group_id, _partitions(groups, group_id))
    if groups.options["execute"]:
        errors = groups.admin.alter_consumer_group_offsets(group_id, plan, timeout=groups.timeout).errors
        if errors:
            raise Failed(one_line(next(iter(errors.values()))))
    return {partition: plan[partition] for partition in map_order(plan, partition_hash)}


def _partitions(groups: Groups, group_id: str) -> list[TopicPartition]:
    """Those whose offsets are to be set."""
    options = groups.options
    if options["all_topics"]:
        return list(groups.committed(group_id))
    if options["topic"]:
        return named_partitions(groups, options["topic"])
    if options["from_file"] is None:
        raise Refused("One of the reset scopes should be defined: --all-topics, --topic.")
    return []


def named_partitions(groups: Groups, given: Collection[str]) -> list[TopicPartition]:
    """`orders` is all of its partitions, `orders:0,2` those two."""
    from ottla.types import TopicPartition

    found = [partition for item in given if ":" in item for partition in _parsed(item)]
    topics = [item for item in given if ":" not in item]
    if topics:
        described = groups.admin.describe_topics(topics, timeout=groups.timeout).all()
        for name in string_order(topic.name for topic in described.values()):
            found += [TopicPartition(name, one.partition) for one in described[name].partitions]
    return found


def _parsed(item: str) -> list[TopicPartition]:
    from ottla.types import TopicPartition

    topic, _, numbers = item.partition(":")
    if ":" in numbers or not numbers:
        raise Refused(f"Invalid topic arg '{item}', expected topic name and partitions")
    found = []
    for number in numbers.split(","):
        if not re.fullmatch(r"[+-]?\d+", number):
            raise Refused(f"Invalid partition '{number}' specified in topic arg '{item}''")
        found.append(TopicPartition(topic, int(number)))
    return found


def _check_partitions(groups: Groups, partitions: Collection[TopicPartition]) -> None:
    from ottla.types import TopicPartition

    topics = sorted({one.topic for one in partitions})
    described = groups.admin.describe_topics(topics, timeout=groups.timeout).all() if topics else {}
    leaders = {
        TopicPartition(topic.name, one.partition): one.leader
        for topic in described.values()
        for one in topic.partitions
    }
    missing = [str(one) for one in partitions if one not in leaders]
    if missing:
        raise Failed(f'The partitions "{",".join(missing)}" do not exist')
    headless = [str(one) for one in partitions if leaders[one] is None]
    if headless:
        raise Failed(f'The partitions "{",".join(headless)}" have no leader')


def _prepare(groups: Groups, group_id: str, partitions: list[TopicPartition]) -> Plan:
    """The new offset of each partition."""
    from ottla.client.admin import OffsetSpec

    options = groups.options
    _check_partitions(groups, partitions)
    if options["to_offset"] is not None:
        return _in_range(groups, dict.fromkeys(partitions, options["to_offset"]))
    if options["to_earliest"]:
        return _listed(groups, partitions, OffsetSpec.earliest())
    if options["to_latest"]:
        return _listed(groups, partitions, OffsetSpec.latest())
    if options["shift_by"] is not None:
        committed = groups.committed(group_id)
        for one in partitions:
            if one not in committed:
                raise Refused(f"Cannot shift offset for partition {one} since there is no current committed offset")
        return _in_range(groups, {one: committed[one].offset + options["shift_by"] for one in partitions})
    if options["to_datetime"] is not None:
        return _at_time(groups, partitions, parse_datetime(options["to_datetime"]))
    if options["by_duration"] is not None:
        ago = parse_duration(options["by_duration"])
        return _at_time(groups, partitions, int((datetime.now(UTC) - ago).timestamp() * 1000))
    if options["from_file"] is not None:
        plans = read_csv(options["from_file"], options["group"])
        if group_id not in plans:
            print_error(f"No reset plan for group {group_id} found")
            return {}
        return _in_range(groups, plans[group_id])
    if options["to_current"]:
        committed = groups.committed(group_id)
        current = {one: committed[one].offset for one in partitions if one in committed}
        return current | _listed(groups, [one for one in partitions if one not in committed], OffsetSpec.latest())
    raise Refused(
        "Option '[reset-offsets]' requires one of the following scenarios: [[to-offset], [shift-by], [to-datetime], "
        "[by-duration], [to-earliest], [to-latest], [to-current], [from-file]]"
    )


def _listed(groups: Groups, partitions: Collection[TopicPartition], spec: OffsetSpec) -> Plan:
    if not partitions:
        return {}
    found = groups.admin.list_offsets(dict.fromkeys(partitions, spec), timeout=groups.timeout).all()
    return {partition: found[partition].offset for partition in partitions}


def _at_time(groups: Groups, partitions: Collection[TopicPartition], timestamp_ms: int) -> Plan:
    """The first offset that is not older; the end where there is none."""
    from ottla.client.admin import OffsetSpec

    found = _listed(groups, partitions, OffsetSpec.for_timestamp(timestamp_ms))
    late = [one for one in map_order(found, partition_hash) if found[one] == -1]
    for one in late:
        click.echo(
            f"\nWarn: Partition {one.partition} from topic {one.topic} is empty. Falling back to latest known offset."
        )
    return found | _listed(groups, late, OffsetSpec.latest())


def _in_range(groups: Groups, wanted: Plan) -> Plan:
    """The same, held to what the partitions have."""
    from ottla.client.admin import OffsetSpec

    first = _listed(groups, wanted, OffsetSpec.earliest())
    end = _listed(groups, wanted, OffsetSpec.latest())
    plan = {}
    for one, offset in wanted.items():
        plan[one] = max(first[one], min(end[one], offset))
        if plan[one] != offset:
            which = "higher than latest" if offset > end[one] else "lower than earliest"
            click.echo(
                f"New offset ({offset}) is {which} offset for topic partition {one}. Value will be set to {plan[one]}",
                err=True,
            )
    return plan


# Files and times


def read_csv(path: str, groups: Collection[str]) -> dict[str, Plan]:
    """The plans of a file: `topic,partition,offset` lines for the one group, or with the group in front."""
    import csv

    from ottla.types import TopicPartition

    plans: dict[str, Plan] = {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                if len(row) == 3 and len(groups) == 1:
                    row = [*groups, *row]
                if not row:
                    continue
                group_id, topic, partition, offset = row
                plans.setdefault(group_id, {})[TopicPartition(topic, int(partition))] = int(offset)
    except OSError as error:
        raise Refused(f"Cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise Refused(f"{path}: a line has a topic, a partition and an offset, and maybe a group before them") from None
    return plans


def parse_datetime(text: str) -> int:
    """Milliseconds of `2026-11-16T04:30:00.000`, in UTC unless it says otherwise."""
    if "T" not in text:
        raise Refused("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    given = text if re.search(r"[+\-Z]", text.split("T", 1)[1]) else text + "Z"
    match = DATETIME.fullmatch(given)
    try:
        if match is None:
            raise ValueError(text)
        moment = datetime.strptime(given[: match.start(1) - 1], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        raise Refused(f'Unparseable date: "{given}"') from None
    zone = match[2]
    offset = timedelta()
    if zone != "Z":
        sign = -1 if zone[0] == "-" else 1
        offset = sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[3:].replace(":", "") or 0))
    return int((moment - offset).timestamp() * 1000) + int(match[1])


def parse_duration(text: str) -> timedelta:
    """`P1DT2H3M4.5S`, as Java reads durations."""
    match = DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:2] + match.groups()[3:]) or match[3] in ("T", "t"):
        raise Refused("Text cannot be parsed to a Duration")
    days, hours, minutes, seconds = (float(part or 0) for part in match.group(2, 4, 5, 6))
    found = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -found if match[1] == "-" else found


# Output


def _as_csv(plans: Mapping[str, Plan], *, with_groups: bool) -> str:
    return "".join(
        (f"{group_id}," if with_groups else "") + f"{one.topic},{one.partition},{offset}\n"
        for group_id, plan in plans.items()
        for one, offset in plan.items()
    )


def _print_plans(plans: Mapping[str, Plan]) -> None:
    group_width = max([15, *map(len, plans)])
    topic_width = max([15, *(len(one.topic) for plan in plans.values() for one in plan)])

    def show(*cells: object) -> None:
        group, topic, partition, offset = map(str, cells)
        click.echo(f"\n{group:<{group_width}} {topic:<{topic_width}} {partition:<10} {offset}", nl=False)

    if plans:
        show("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    for group_id, plan in plans.items():
        for one, offset in plan.items():
            show(group_id, one.topic, one.partition, offset)
    click.echo()


# Deleting


def delete_offsets(groups: Groups) -> None:
    """Offsets of topics that the group does not read any more."""
    from ottla.errors import (
        GroupAuthorizationFailed,
        GroupIdNotFound,
        GroupSubscribedToTopic,
        InvalidGroupId,
        NonEmptyGroup,
        TopicAuthorizationFailed,
        UnknownTopicOrPartition,
    )
    from ottla.types import TopicPartition

    options = groups.options
    group_id = options["group"][-1]
    outcome: dict[TopicPartition, KafkaError | None] = {}
    partitions = [one for item in options["topic"] if ":" in item for one in _parsed(item)]
    topics = [item for item in options["topic"] if ":" not in item]
    if topics:
        for name, found in groups.admin.describe_topics(topics, timeout=groups.timeout).items():
            if found.error is not None:
                outcome[TopicPartition(str(name), -1)] = found.error
            else:
                partitions += [TopicPartition(str(name), one.partition) for one in found.result().partitions]
    failure: KafkaError | None = None
    if partitions:
        deleted = groups.admin.delete_consumer_group_offsets(group_id, partitions, timeout=groups.timeout)
        outcome |= {one: deleted[one].error for one in partitions}
        failure = next(iter(deleted.errors.values()), None)
    if options["output"] == "json":
        print_json([
            {"topic": one.topic, "partition": one.partition, "error": None if error is None else str(error)}
            for one, error in outcome.items()
        ])  # fmt: skip
        return
    match failure:
        case None:
            click.echo(f"Request succeeded for deleting offsets from group {group_id}.")
        case InvalidGroupId() | GroupIdNotFound() | GroupAuthorizationFailed() | NonEmptyGroup():
            print_error(one_line(failure))
        case GroupSubscribedToTopic() | TopicAuthorizationFailed() | UnknownTopicOrPartition():
            print_error("Encountered some partition-level error, see the follow-up details.")
        case _:
            print_error(f"Encountered some unknown error: {failure.name}")
    width = max([15, *(len(one.topic) for one in outcome)])
    click.echo(f"\n{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}", nl=False)
    for one in sorted(outcome, key=lambda one: f"{one.topic}{one.partition}"):
        error = outcome[one]
        status = "Successful" if error is None else f"Error: {java_text(error)}"
        number = str(one.partition) if one.partition >= 0 else MISSING
        click.echo(f"\n{one.topic:<{width}} {number:<10} {status:<15}", nl=False)
    click.echo()
