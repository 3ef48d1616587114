"""`ottla streams-application-reset`: an application back to its beginning, with the options and words of Kafka's tool.

Of a Kafka Streams application it sets the group's offsets and deletes the internal topics; its local state is each
instance's own. Of a topology of `ottla.pipelines.streams`, whose offsets and state lie in a checkpoint, `--checkpoint`
says where: that goes too, as a whole or some of its steps. Promises: `--dry-run` changes nothing; output topics stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.java_order import fitted_string_order, map_order, partition_hash, string_order
from ottla.cli.tool import (
    F,
    Refused,
    Tool,
    admin_of,
    bootstrap_option,
    complete_groups,
    complete_topics,
    not_together,
    one_line,
    version_option,
)

if TYPE_CHECKING:
    from ottla.client import Admin
    from ottla.client.admin import OffsetSpec
    from ottla.pipelines.streams.reset import Reset
    from ottla.types import TopicPartition

    Offsets = dict[TopicPartition, int]

SCENARIOS = ("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "from-file", "shift-by")
INTERNAL = re.compile(
    r".*(-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic)"
    r"|.+-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic",
    re.DOTALL,
)
"""The topics that Kafka Streams makes for itself, and Ottla's streams with the same names."""
DELETE_S = 30.0


def topics_option(name: str, text: str) -> Callable[[F], F]:
    return click.option(name, multiple=True, metavar="TOPIC,...", shell_complete=complete_topics, help=text)


@click.command(cls=Tool)
@click.option("--application-id", required=True, metavar="ID", shell_complete=complete_groups, help="The application.")
@bootstrap_option
@click.option("--command-config", metavar="FILE", type=click.Path(), help="Settings for the client, a property file.")
@click.option("--config-file", metavar="FILE", type=click.Path(), help="Deprecated: the same as --command-config.")
@topics_option("--input-topics", "Topics that are read again: from their beginning, unless told.")
@topics_option("--intermediate-topics", "Deprecated: topics that are read on from their end.")
@topics_option("--internal-topics", "The internal topics to delete, of those that a dry run shows.")
@click.option("--to-offset", type=int, metavar="OFFSET", help="Read from this offset.")
@click.option("--to-datetime", metavar="DATETIME", help="Read from the offset of a time: YYYY-MM-DDThh:mm:ss.sss")
@click.option("--by-duration", metavar="DURATION", help="Read from the offset of a time ago: PnDTnHnMnS")
@click.option("--to-earliest", is_flag=True, help="Read from the first offset.")
@click.option("--to-latest", is_flag=True, help="Read from the last offset.")
@click.option("--from-file", metavar="FILE", type=click.Path(), help="Read from the offsets of a CSV file.")
@click.option("--shift-by", type=int, metavar="COUNT", help="Move by so many, back if negative.")
@click.option("--force", is_flag=True, help="Remove members that the group still has.")
@click.option("--dry-run", is_flag=True, help="Show what would be done.")
@click.option(
    "--checkpoint", metavar="DIR", type=click.Path(), help="The checkpoint of an Ottla topology, to reset too."
)
@click.option("--steps", metavar="STEP,...", help="With --checkpoint: only these steps of the topology.")
@version_option
def command(**options: Any) -> None:
    """Take an application back to its beginning: its offsets, its internal topics, an Ottla topology's checkpoint.

    \b
    ottla streams-application-reset --application-id counts --input-topics words --dry-run
    ottla streams-application-reset --application-id shop --checkpoint /data/shop --steps sums,totals

    Stop all instances first. Of a Kafka Streams application, clear the local state of each as well.
    """
    given = {f"--{name}": options[name.replace("-", "_")] for name in SCENARIOS}
    is_given = {name[2:]: value is not None and value is not False for name, value in given.items()}
    for used in SCENARIOS:
        not_together(used, is_given[used], {other: is_given[other] for other in SCENARIOS if other != used})
    if options["config_file"] and options["command_config"]:
        raise Refused('Option "[command-config]" can\'t be used with option "[config-file]"')
    for name in ("input_topics", "intermediate_topics", "internal_topics"):
        options[name] = [topic for item in options[name] for topic in item.split(",")]
    topology = _topology(options)
    if options["config_file"]:
        click.echo(
            "Option --config-file has been deprecated and will be removed in a future version. Use --command-config "
            "instead."
        )
    if options["intermediate_topics"]:
        click.echo("WARN: `--intermediate-topics` is deprecated and will be removed in a future release")
    with admin_of(options["bootstrap_server"], options["command_config"] or options["config_file"]) as admin:
        is_whole = Application(admin, options, topology).reset()
    if not is_whole:
        raise SystemExit(1)


def _topology(options: Mapping[str, Any]) -> Reset | None:
    """What goes of an Ottla topology; None for an application of Kafka Streams."""
    if options["checkpoint"] is None:
        if options["steps"]:
            raise Refused("--steps goes with --checkpoint, where the steps are")
        return None
    for name in ("input-topics", "intermediate-topics", "internal-topics"):
        if options[name.replace("-", "_")]:
            raise Refused(
                f"--{name} is for Kafka Streams: a topology's offsets lie in its checkpoint, and without one it begins "
                "at the earliest"
            )
    from ottla.pipelines.errors import PipelineError
    from ottla.pipelines.streams.reset import plan_reset

    steps = [step for step in (options["steps"] or "").split(",") if step]
    try:
        return plan_reset(options["application_id"], options["checkpoint"], steps)
    except PipelineError as error:
        raise Refused(str(error)) from None


class Application:
    """One application on a cluster."""

    def __init__(self, admin: Admin, options: Mapping[str, Any], topology: Reset | None) -> None:
        self._admin = admin
        self._options = options
        self._topology = topology
        self._id: str = options["application_id"]
        self._is_dry: bool = options["dry_run"]
        self._topics: list[str] = []

    def reset(self) -> bool:
        """Everything; whether all topics that were named are there."""
        self._remove_members()
        self._topics = string_order(self._admin.list_topics())
        if self._is_dry:
            click.echo("----Dry run displays the actions which will be performed when running Streams Reset Tool----")
        is_whole = self._reset_offsets()
        if self._topology is not None:
            self._reset_checkpoint(self._topology)
        self._delete_topics()
        if self._topology is not None and not self._is_dry:
            self._topology.forget_steps()
        return is_whole

    # Members

    def _remove_members(self) -> None:
        from ottla.errors import GroupIdNotFound

        outcome = self._admin.describe_consumer_groups([self._id])[self._id]
        if isinstance(outcome.error, GroupIdNotFound):
            return
        members = outcome.result().members
        if not members:
            return
        if not self._options["force"]:
            told = ", ".join(f"{member.member_id} ({member.client_id} at {member.host})" for member in members)
            raise Refused(
                f"ERROR: Consumer group '{self._id}' is still active and has following members: [{told}]. Make sure to "
                "stop all running application instances before running the reset tool. You can use option '--force' to "
                "remove active members from the group."
            )
        click.echo(f"Force deleting all active members in the group: {self._id}")
        self._admin.remove_members_from_consumer_group(self._id).all()

    # Offsets

    def _reset_offsets(self) -> bool:
        inputs, middles = self._options["input_topics"], self._options["intermediate_topics"]
        if not inputs and not middles:
            if self._topology is None:
                click.echo("No input or intermediate topics specified. Skipping seek.")
            return True
        if inputs:
            click.echo(f"Reset-offsets for input topics {_listed(inputs)}")
        if middles:
            click.echo(f"Seek-to-end for intermediate topics {_listed(middles)}")
        is_whole = self._tell_missing("input", inputs, "Topic: ")
        is_whole &= self._tell_missing("intermediate", middles, "Topic:")
        found = fitted_string_order([topic for topic in (*inputs, *middles) if topic in self._topics])
        if not found:
            return is_whole
        partitions = self._partitions(found)
        ins = map_order([one for one in partitions if one.topic in inputs], partition_hash)
        others = map_order([one for one in partitions if one.topic not in inputs], partition_hash)
        new: Offsets = {}
        if ins:
            click.echo(f"Following input topics offsets will be reset to (for consumer group {self._id})")
            new = self._wanted(ins)
            for one in ins:
                click.echo(f"Topic: {one.topic} Partition: {one.partition} Offset: {new[one]}")
        if others:
            click.echo(f"Following intermediate topics offsets will be reset to end (for consumer group {self._id})")
            for one in others:
                click.echo(f"Topic: {one.topic}")
            new |= self._ends(others)
        if not self._is_dry:
            self._admin.alter_consumer_group_offsets(self._id, new).all()
        click.echo("Done.")
        return is_whole

    def _tell_missing(self, kind: str, wanted: list[str], before: str) -> bool:
        missing = [topic for topic in wanted if topic not in self._topics]
        if missing:
            click.echo(f"Following {kind} topics are not found, skipping them")
            for topic in missing:
                click.echo(f"{before}{topic}")
        return not missing

    def _partitions(self, topics: list[str]) -> list[TopicPartition]:
        from ottla.types import TopicPartition

        described = self._admin.describe_topics(topics).all()
        return [TopicPartition(topic, one.partition) for topic in topics for one in described[topic].partitions]

    def _wanted(self, partitions: list[TopicPartition]) -> Offsets:
        """Where each partition is to be read from."""
        from ottla.cli.group_offsets import parse_datetime, parse_duration, read_csv

        options = self._options
        if options["to_offset"] is not None:
            return self._in_range(dict.fromkeys(partitions, options["to_offset"]))
        if options["to_latest"]:
            return self._ends(partitions)
        if options["shift_by"] is not None:
            now = self._positions(partitions)
            return self._in_range({one: now[one] + options["shift_by"] for one in partitions})
        if options["to_datetime"] is not None:
            return self._at_time(partitions, parse_datetime(options["to_datetime"]))
        if options["by_duration"] is not None:
            from datetime import UTC, datetime

            ago = parse_duration(options["by_duration"])
            return self._at_time(partitions, int((datetime.now(UTC) - ago).timestamp() * 1000))
        if options["from_file"] is not None:
            plan = read_csv(options["from_file"], [self._id]).get(self._id, {})
            missing = [one for one in partitions if one not in plan]
            if missing:
                raise Refused(f"{options['from_file']} has no offset for {', '.join(map(str, missing))}")
            return self._in_range({one: plan[one] for one in partitions})
        return self._begins(partitions)

    def _positions(self, partitions: list[TopicPartition]) -> Offsets:
        """Where the group stands; the end where it has committed nothing, as a consumer begins."""
        committed = self._admin.list_consumer_group_offsets([self._id])[self._id].result()
        known = {one: at.offset for one in partitions if (at := committed.get(one)) is not None}
        return known | self._ends([one for one in partitions if one not in known])

    def _at_time(self, partitions: list[TopicPartition], time_ms: int) -> Offsets:
        from ottla.client.admin import OffsetSpec

        found = self._offsets(partitions, OffsetSpec.for_timestamp(time_ms))
        late = [one for one in partitions if found[one] == -1]
        for one in late:
            click.echo(
                f"Partition {one.partition} from topic {one.topic} is empty, without a committed record. Falling back "
                "to latest known offset."
            )
        return found | self._ends(late)

    def _in_range(self, wanted: Offsets) -> Offsets:
        """The same, held to what the partitions have."""
        begins, ends = self._begins(list(wanted)), self._ends(list(wanted))
        held = {}
        for one in map_order(wanted, partition_hash):
            offset = held[one] = wanted[one]
            if offset >= ends[one]:
                click.echo(f"New offset ({offset}) is higher than latest offset. Value will be set to {ends[one]}")
                held[one] = ends[one]
            elif offset <= begins[one]:
                click.echo(f"New offset ({offset}) is lower than earliest offset. Value will be set to {begins[one]}")
                held[one] = begins[one]
        return held

    def _begins(self, partitions: list[TopicPartition]) -> Offsets:
        from ottla.client.admin import OffsetSpec

        return self._offsets(partitions, OffsetSpec.earliest())

    def _ends(self, partitions: list[TopicPartition]) -> Offsets:
        from ottla.client.admin import OffsetSpec

        return self._offsets(partitions, OffsetSpec.latest())

    def _offsets(self, partitions: list[TopicPartition], spec: OffsetSpec) -> Offsets:
        if not partitions:
            return {}
        found = self._admin.list_offsets(dict.fromkeys(partitions, spec)).all()
        return {one: found[one].offset for one in partitions}

    # What an Ottla topology has

    def _reset_checkpoint(self, topology: Reset) -> None:
        click.echo(f"Deleting the state and offsets of steps {_listed(topology.places)} in {topology.checkpoint}")
        click.echo(f"Deleting the memory of sinks {_listed(topology.groups)}")
        if not self._is_dry:
            topology.begin()
            topology.remove_checkpoints()
            topology.forget_batches(self._admin)
        click.echo("Done.")

    # Topics

    def _delete_topics(self) -> None:
        named = {*self._options["input_topics"], *self._options["intermediate_topics"]}
        inferred = [
            topic
            for topic in self._topics
            if topic not in named and topic.startswith(f"{self._id}-") and INTERNAL.fullmatch(topic)
        ]
        chosen = self._options["internal_topics"]
        if self._topology is not None and self._topology.topics is not None:
            wanted = [topic for topic in inferred if topic in self._topology.topics]
            click.echo(f"Deleting internal topics of these steps {_listed(wanted)}")
        elif chosen:
            if not set(chosen) <= set(inferred):
                raise Refused(
                    "ERROR: Invalid topic specified in the --internal-topics option. Ensure that the topics specified "
                    "are all internal topics. Do a dry run without the --internal-topics option to see the list of all "
                    "internal topics that can be deleted."
                )
            wanted = chosen
            click.echo(f"Deleting specified internal topics {_listed(wanted)}")
        else:
            wanted = inferred
            click.echo(f"Deleting inferred internal topics {_listed(wanted)}")
        if not self._is_dry:
            failed = self._admin.delete_topics(wanted, timeout=DELETE_S).errors if wanted else {}
            if failed:
                told = ", ".join(f"{topic}: {one_line(error)}" for topic, error in failed.items())
                raise Refused(f"ERROR: deleting topics failed: {told}")
        click.echo("Done.")


def _listed(names: Any) -> str:
    """As Java prints a list."""
    return f"[{', '.join(names)}]"
