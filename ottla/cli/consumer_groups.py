"""`ottla consumer-groups`: consumer groups, their members and their lag; with the options and words of
`kafka-consumer-groups`.

What fails after the options are understood is told on standard output and ends with exit code 0, as in Kafka's tool:
scripts look for `Error:`. Setting offsets is in `group_offsets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.java_order import string_order
from ottla.cli.tool import (
    Refused,
    Tool,
    admin_of,
    bootstrap_option,
    command_config_option,
    complete_groups,
    complete_topics,
    exactly_one,
    java_text,
    not_together,
    output_option,
    print_json,
    version_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ottla.client import Admin
    from ottla.client.admin import ConsumerGroupDescription, GroupListing
    from ottla.types import TopicPartition

MISSING = "-"
ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS = (
    "to-offset",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "shift-by",
    "from-file",
)
NO_EXECUTE = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)


@click.command(cls=Tool)
@bootstrap_option
@command_config_option
@click.option("--list", "list", is_flag=True, help="List groups.")
@click.option("--describe", is_flag=True, help="Show groups: offsets and lag, or members, or state.")
@click.option("--delete", is_flag=True, help="Delete groups.")
@click.option("--reset-offsets", is_flag=True, help="Set offsets of groups without members.")
@click.option("--delete-offsets", is_flag=True, help="Delete offsets of a group for topics that it does not read.")
@click.option("--validate-regex", metavar="REGEX", help="Say whether a broker takes a regular expression.")
@click.option(
    "--group", metavar="GROUP", multiple=True, shell_complete=complete_groups, help="A group; may be repeated."
)
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option(
    "--topic",
    metavar="TOPIC[:P,P,...]",
    multiple=True,
    shell_complete=complete_topics,
    help="A topic, and maybe some of its partitions; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="All topics that the group has offsets for.")
@click.option("--offsets", is_flag=True, help="Describe offsets and lag; the default.")
@click.option("--members", is_flag=True, help="Describe members.")
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    metavar="[STATE,...]",
    help="Describe state and coordinator; with --list, show states, or only groups in these.",
)
@click.option(
    "--type",
    "type",
    is_flag=False,
    flag_value="",
    metavar="[TYPE,...]",
    help="With --list, show types, or only groups of these: consumer, classic.",
)
@click.option("--verbose", is_flag=True, help="Describe more.")
@click.option("--dry-run", is_flag=True, help="Show what would be set.")
@click.option("--execute", is_flag=True, help="Set it.")
@click.option("--export", is_flag=True, help="Print what would be set as CSV, for --from-file.")
@click.option("--to-offset", type=int, metavar="OFFSET", help="Set this offset.")
@click.option("--to-datetime", metavar="DATETIME", help="Set the offset of a time: YYYY-MM-DDTHH:mm:SS.sss")
@click.option("--by-duration", metavar="DURATION", help="Set the offset of a time ago, such as P1DT2H.")
@click.option("--to-earliest", is_flag=True, help="Set the first offset.")
@click.option("--to-latest", is_flag=True, help="Set the last offset.")
@click.option("--to-current", is_flag=True, help="Set what is set.")
@click.option("--shift-by", type=int, metavar="COUNT", help="Move by so many, back if negative.")
@click.option("--from-file", metavar="FILE", type=click.Path(), help="Set what a CSV file says.")
@click.option("--timeout", type=int, default=30000, show_default=True, metavar="MS", help="How long to wait.")
@output_option
@version_option
def command(**options: Any) -> None:
    """Show consumer groups, their members and their lag, and set their offsets.

    \b
    ottla consumer-groups --list --state
    ottla consumer-groups --describe --group billing
    ottla consumer-groups --reset-offsets --group billing --topic orders --to-earliest --execute
    """
    check_options(options)
    if options["validate_regex"] is not None:
        validate_regex(options["validate_regex"])
        return
    from ottla.errors import KafkaError

    try:
        with admin_of(options["bootstrap_server"], options["command_config"]) as admin:
            Groups(admin, options).run()
    except (KafkaError, Failed) as error:
        reason = str(error) if isinstance(error, Failed) else java_text(error)
        print_error(f"Executing consumer group command failed due to {reason}")


class Failed(Exception):
    """What the tool itself finds to be wrong with the cluster."""


def check_options(options: Mapping[str, Any]) -> None:
    """`Refused` for what makes no sense together, in Kafka's words."""
    given = {name: _is_given(options[name.replace("-", "_")]) for name in (*ACTIONS, *SCENARIOS)}
    _check_available(options)
    has_groups = bool(options["group"] or options["all_groups"])
    if given["describe"]:
        if not has_groups:
            raise Refused("Option [describe] takes one of these options: [group], [all-groups]")
        views = [options["members"], options["offsets"], options["state"] is not None]
        if sum(map(bool, views)) > 1:
            raise Refused("Option [describe] takes at most one of these options: [members], [offsets], [state]")
        if options["state"]:
            raise Refused("Option [describe] does not take a value for [state]")
    if given["delete"]:
        if not has_groups:
            raise Refused("Option [delete] takes one of these options: [group], [all-groups]")
        if options["topic"]:
            raise Refused("The consumer does not support topic-specific offset deletion from a consumer group.")
    if given["delete-offsets"] and not (options["group"] and options["topic"]):
        raise Refused("Option [delete-offsets] takes the following options: [group], [topic]")
    if given["reset-offsets"]:
        if options["dry_run"] and options["execute"]:
            raise Refused("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
        if not options["dry_run"] and not options["execute"]:
            click.echo(NO_EXECUTE, err=True)
        if not has_groups:
            raise Refused("Option [reset-offsets] takes one of these options: [group], [all-groups]")
        for name in SCENARIOS:
            not_together(name, given[name], {other: given[other] for other in SCENARIOS if other != name})
    not_together("group", options["group"], {"all-groups": options["all_groups"]})
    not_together("group", options["group"], {"list": options["list"]})
    not_together("topic", options["topic"], {"list": options["list"], "describe": options["describe"]})
    exactly_one(
        {name: given[name] for name in ACTIONS},
        "Command must include exactly one action: " + ", ".join(f"--{name}" for name in ACTIONS),
    )


def _check_available(options: Mapping[str, Any]) -> None:
    """Options that only some actions have."""
    needs = {
        "members": ("describe",), "verbose": ("describe",), "offsets": ("describe",), "state": ("describe", "list"),
        "type": ("list",),
    }  # fmt: skip
    unavailable = [
        name
        for name, actions in needs.items()
        if _is_given(options[name]) and not any(options[action] for action in actions)
    ]
    if unavailable:
        raise Refused(f"Option(s) [{', '.join(unavailable)}] are unavailable given other options on the command line")


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != ()


def validate_regex(regex: str) -> None:
    """Brokers match subscriptions with RE2, which refuses what could take for ever."""
    import re2

    settings = re2.Options()
    settings.log_errors = False
    try:
        re2.compile(regex, settings)
    except re2.error as error:
        message = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        click.echo(f"The regular expression `{regex}` is invalid: {message}.")
        return
    click.echo(f"The regular expression `{regex}` is valid.")


def print_error(message: str) -> None:
    click.echo(f"\nError: {message}")


class Groups:
    """One run of the tool."""

    def __init__(self, admin: Admin, options: Mapping[str, Any]) -> None:
        self.admin = admin
        self.options = options
        self.timeout = options["timeout"] / 1000
        self._is_json = options["output"] == "json"

    def run(self) -> None:
        if self.options["list"]:
            self.list_groups()
        elif self.options["describe"]:
            self.describe()
        elif self.options["delete"]:
            self.delete()
        else:
            from ottla.cli import group_offsets

            if self.options["delete_offsets"]:
                group_offsets.delete_offsets(self)
            else:
                group_offsets.reset_offsets(self)

    def group_ids(self) -> Sequence[str]:
        """The groups that are meant."""
        if self.options["all_groups"]:
            return [group.group_id for group in self._listed()]
        groups: tuple[str, ...] = self.options["group"]
        return list(dict.fromkeys(groups))

    # List

    def _listed(self, **filters: Any) -> list[GroupListing]:
        found = {one.group_id: one for one in self.admin.list_consumer_groups(timeout=self.timeout, **filters)}
        return [found[group_id] for group_id in string_order(found)]

    def list_groups(self) -> None:
        states = self._parsed_states(self.options["state"])
        types = self._parsed_types(self.options["type"])
        groups = self._listed(states=states, types=types)
        if self._is_json:
            print_json([
                {
                    "group": one.group_id,
                    "type": _name(one.type),
                    "state": _name(one.state),
                }
                for one in groups
            ])  # fmt: skip
            return
        if self.options["state"] is None and self.options["type"] is None:
            for group in groups:
                click.echo(group.group_id)
            return
        width = max([15, *(len(group.group_id) for group in groups)]) + 10
        columns: list[tuple[str, Callable[[GroupListing], str]]] = []
        if self.options["type"] is not None:
            columns.append(("TYPE", lambda one: _name(one.type)))
        if self.options["state"] is not None:
            columns.append(("STATE", lambda one: _name(one.state)))
        click.echo(" ".join(["GROUP".ljust(width), *(title.ljust(20) for title, _ in columns)]))
        for group in groups:
            click.echo(" ".join([group.group_id.ljust(width), *(text(group).ljust(20) for _, text in columns)]))

    def _parsed_states(self, text: str | None) -> list[Any]:
        if not text:
            return []
        from ottla.client.admin import GroupState

        valid = [one for one in GroupState if one not in (GroupState.UNKNOWN, GroupState.NOT_READY)]
        found = [GroupState.parse(one.strip()) for one in text.split(",")]
        if any(one not in valid for one in found):
            raise Refused(f"Invalid state list '{text}'. Valid states are: {', '.join(one.value for one in valid)}")
        return found

    def _parsed_types(self, text: str | None) -> list[Any]:
        if not text:
            return []
        from ottla.client.admin import GroupType

        valid = [GroupType.CONSUMER, GroupType.CLASSIC]
        found = [GroupType.parse(one.strip()) for one in text.split(",")]
        if any(one not in valid for one in found):
            raise Refused(f"Invalid types list '{text}'. Valid types are: {', '.join(one.value for one in valid)}")
        return found

    # Describe

    def describe(self) -> None:
        described = self.admin.describe_consumer_groups(self.group_ids(), timeout=self.timeout).all()
        groups = [described[group_id] for group_id in sorted(described)]
        if self.options["members"]:
            view: Callable[[ConsumerGroupDescription], Any] = self._members_as_json if self._is_json else self._members
        elif self.options["state"] is not None:
            view = self._state_as_json if self._is_json else self._state
        else:
            view = self._offsets_as_json if self._is_json else self._offsets
        seen = [view(group) for group in groups]
        if self._is_json:
            print_json(seen)

    def _may_show(self, group: ConsumerGroupDescription, row_count: int) -> bool:
        """Say what there is to say of the group's state; whether it has rows to show."""
        from ottla.client.admin import GroupState

        match group.state:
            case GroupState.DEAD:
                print_error(f"Consumer group '{group.group_id}' does not exist.")
                return False
            case GroupState.EMPTY:
                click.echo(f"\nConsumer group '{group.group_id}' has no active members.", err=True)
            case GroupState.STABLE:
                pass
            case _:
                click.echo(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", err=True)
        return row_count > 0

    def _offset_rows(self, group: ConsumerGroupDescription) -> list[list[str]]:
        """Partitions that members have, the member with most of them first, and then what nobody has."""
        committed = self.committed(group.group_id)
        assigned: set[TopicPartition] = set()
        found: list[tuple[TopicPartition, str, str, str]] = []
        for member in sorted(group.members, key=lambda member: -len(member.assignment)):
            assigned |= member.assignment
            found += [(one, member.member_id, member.host, member.client_id) for one in sorted(member.assignment)]
        found += [(one, MISSING, MISSING, MISSING) for one in sorted(one for one in committed if one not in assigned)]
        ends = self._log_ends([partition for partition, *_ in found])
        rows = []
        for partition, member_id, host, client_id in found:
            offset = committed.get(partition)
            end = ends.get(partition)
            rows.append([
                group.group_id,
                partition.topic,
                str(partition.partition),
                MISSING if offset is None or offset.leader_epoch is None else str(offset.leader_epoch),
                MISSING if offset is None else str(offset.offset),
                MISSING if end is None else str(end),
                MISSING if offset is None or end is None or offset.offset == -1 else str(end - offset.offset),
                member_id,
                host,
                client_id,
            ])  # fmt: skip
        return rows

    def committed(self, group_id: str) -> dict[TopicPartition, Any]:
        """What the group has committed."""
        found = self.admin.list_consumer_group_offsets([group_id], timeout=self.timeout)[group_id].result()
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def _log_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where those end that have a leader."""
        if not partitions:
            return {}
        from ottla.client.admin import OffsetSpec
        from ottla.types import TopicPartition

        topics = self.admin.describe_topics(sorted({one.topic for one in partitions}), timeout=self.timeout).all()
        led = {
            TopicPartition(topic.name, one.partition)
            for topic in topics.values()
            for one in topic.partitions
            if one.leader is not None
        }
        specs = {one: OffsetSpec.latest() for one in partitions if one in led}
        return {one: found.offset for one, found in self.admin.list_offsets(specs, timeout=self.timeout).all().items()}

    def _offsets(self, group: ConsumerGroupDescription) -> None:
        rows = self._offset_rows(group)
        if not self._may_show(group, len(rows)):
            return
        header = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
                  "CONSUMER-ID", "HOST", "CLIENT-ID"]  # fmt: skip
        widths = [_width(rows, 0), _width(rows, 1), 10, 15, 15, 15, 15, _width(rows, 7), _width(rows, 8), 0]
        if not self.options["verbose"]:
            del widths[3]
            for row in [header, *rows]:
                del row[3]
        for row in [header, *rows]:
            click.echo("\n" + _aligned(row, widths), nl=False)
        click.echo()

    def _offsets_as_json(self, group: ConsumerGroupDescription) -> dict[str, object]:
        names = ("group", "topic", "partition", "leaderEpoch", "currentOffset", "logEndOffset", "lag", "consumerId",
                 "host", "clientId")  # fmt: skip
        numbers = {"partition", "leaderEpoch", "currentOffset", "logEndOffset", "lag"}
        rows = [
            {
                name: None if text == MISSING else int(text) if name in numbers else text
                for name, text in zip(names[1:], row[1:], strict=True)
            }
            for row in self._offset_rows(group)
        ]
        return {"group": group.group_id, "state": group.state.value, "partitions": rows}

    def _members(self, group: ConsumerGroupDescription) -> None:
        members = group.members
        is_shown = self._may_show(group, len(members))
        with_instance = is_shown and any(member.group_instance_id for member in members)
        header = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
        rows = [
            [group.group_id, member.member_id, member.group_instance_id or "", member.host, member.client_id,
             str(len(member.assignment))]
            for member in members
        ]  # fmt: skip
        shown = rows if is_shown else []
        widths = [_width(shown, 0), _width(shown, 1), _width(shown, 2, 17), _width(shown, 3), _width(shown, 4), 15]
        if self.options["verbose"]:
            self._add_epochs(group, header, rows, widths, is_shown=is_shown)
        if not with_instance:
            del widths[2]
            for row in [header, *rows]:
                del row[2]
        # Kafka's tool leaves a space behind the number of partitions, whether something follows or not.
        trailing = "" if self.options["verbose"] else " "
        click.echo("\n" + _aligned(header, widths) + trailing)
        for row in rows:
            click.echo(_aligned(row, widths) + trailing)

    def _add_epochs(
        self,
        group: ConsumerGroupDescription,
        header: list[str],
        rows: list[list[str]],
        widths: list[int],
        *,
        is_shown: bool,
    ) -> None:
        """The columns of --verbose."""
        header += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        for row, member in zip(rows, group.members, strict=True):
            row += [
                MISSING if member.member_epoch is None else str(member.member_epoch),
                _assignment(member.assignment),
                MISSING if group.target_assignment_epoch is None else str(group.target_assignment_epoch),
                _assignment(member.target_assignment or frozenset()),
            ]
        shown = rows if is_shown else []
        widths += [15, _width(shown, 7, 20), 15, _width(shown, 9, 20)]
        if {member.is_upgraded for member in group.members} >= {True, False}:
            header.append("UPGRADED")
            widths.append(0)
            for row, member in zip(rows, group.members, strict=True):
                row.append(MISSING if member.is_upgraded is None else str(member.is_upgraded).lower())

    def _members_as_json(self, group: ConsumerGroupDescription) -> dict[str, object]:
        return {
            "group": group.group_id,
            "state": group.state.value,
            "members": [
                {
                    "consumerId": member.member_id,
                    "groupInstanceId": member.group_instance_id,
                    "host": member.host,
                    "clientId": member.client_id,
                    "epoch": member.member_epoch,
                    "assignment": _listed(member.assignment),
                    "targetAssignment": _listed(member.target_assignment),
                }
                for member in group.members
            ],
        }

    def _state(self, group: ConsumerGroupDescription) -> None:
        if not self._may_show(group, 1):
            return
        node = group.coordinator
        header = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH",
                  "#MEMBERS"]  # fmt: skip
        row = [
            group.group_id,
            f"{node.host}:{node.port}  ({node.node_id})",
            group.partition_assignor or MISSING,
            group.state.value,
            MISSING if group.group_epoch is None else str(group.group_epoch),
            MISSING if group.target_assignment_epoch is None else str(group.target_assignment_epoch),
            str(len(group.members)),
        ]
        widths = [_width([row], 0), _width([row], 1, 25), 20, 20, 15, 25, 0]
        if not self.options["verbose"]:
            del header[4:6], row[4:6], widths[4:6]
        click.echo("\n" + _aligned(header, widths) + "\n" + _aligned(row, widths))

    def _state_as_json(self, group: ConsumerGroupDescription) -> dict[str, object]:
        return {
            "group": group.group_id,
            "coordinator": {
                "id": group.coordinator.node_id,
                "host": group.coordinator.host,
                "port": group.coordinator.port,
            },
            "assignmentStrategy": group.partition_assignor or None,
            "state": group.state.value,
            "groupEpoch": group.group_epoch,
            "targetAssignmentEpoch": group.target_assignment_epoch,
            "memberCount": len(group.members),
        }

    # Delete

    def delete(self) -> None:
        outcomes = self.admin.delete_consumer_groups(self.group_ids(), timeout=self.timeout)
        failed = outcomes.errors
        deleted = string_order(group_id for group_id in outcomes if group_id not in failed)
        if self._is_json:
            print_json({"deleted": deleted, "failed": {name: str(error) for name, error in failed.items()}})
            return
        named = ", ".join(f"'{group_id}'" for group_id in deleted)
        if not failed:
            click.echo(f"Deletion of requested consumer groups ({named}) was successful.")
            return
        print_error("Deletion of some consumer groups failed:")
        for group_id in string_order(failed):
            click.echo(f"* Group '{group_id}' could not be deleted due to: {java_text(failed[group_id])}")
        if deleted:
            click.echo(f"\nThese consumer groups were deleted successfully: {named}")


def _name(value: Any) -> str:
    return "Unknown" if value is None else str(value.value)


def _width(rows: Sequence[Sequence[str]], column: int, least: int = 15) -> int:
    return max([least, *(len(row[column]) for row in rows)])


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True))


def _assignment(partitions: frozenset[TopicPartition]) -> str:
    """`orders:0,1;bills:2`, as Kafka's tool joins them."""
    if not partitions:
        return MISSING
    topics: dict[str, list[int]] = {}
    for one in sorted(partitions):
        topics.setdefault(one.topic, []).append(one.partition)
    return ";".join(sorted(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items()))


def _listed(partitions: frozenset[TopicPartition] | None) -> list[dict[str, object]] | None:
    if partitions is None:
        return None
    return [{"topic": one.topic, "partition": one.partition} for one in sorted(partitions)]
