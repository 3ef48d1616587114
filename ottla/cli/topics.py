"""`ottla topics`: create, list, describe, grow and delete topics, with the options and words of `kafka-topics`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.java_order import string_order
from ottla.cli.tool import (
    INTERNAL_TOPICS,
    IncludeList,
    Refused,
    Tool,
    admin_of,
    bootstrap_option,
    command_config_option,
    complete_topics,
    exactly_one,
    not_together,
    one_line,
    output_option,
    print_json,
    version_option,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.client import Admin
    from ottla.client.admin import Config, PartitionDescription, PartitionReassignment, TopicDescription
    from ottla.types import TopicPartition

ACTIONS = ("list", "describe", "create", "alter", "delete")
REPORTS = ("under_replicated_partitions", "under_min_isr_partitions", "at_min_isr_partitions", "unavailable_partitions")
REPLICATION_FACTOR_MAX = 32767
PARTITIONS_A_RESPONSE = 2000


@click.command(cls=Tool)
@bootstrap_option
@command_config_option
@click.option("--list", "list", is_flag=True, help="List topics.")
@click.option("--create", is_flag=True, help="Create a topic.")
@click.option("--delete", is_flag=True, help="Delete topics.")
@click.option("--alter", is_flag=True, help="Give topics more partitions. (`ottla configs` changes settings.)")
@click.option("--describe", is_flag=True, help="Show topics and their partitions.")
@click.option(
    "--topic",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="The topic; a regular expression, except for --create.",
)
@click.option("--topic-id", metavar="ID", help="The topic to describe, by its id.")
@click.option("--config", metavar="NAME=VALUE", multiple=True, help="A setting of the new topic; may be repeated.")
@click.option("--delete-config", metavar="NAME", multiple=True, hidden=True)
@click.option("--partitions", type=int, metavar="COUNT", help="How many partitions a topic is to have.")
@click.option("--replication-factor", type=int, metavar="COUNT", help="How many replicas each partition is to have.")
@click.option(
    "--replica-assignment", metavar="ID:ID,...", help="The brokers of each partition, with commas between partitions."
)
@click.option("--under-replicated-partitions", is_flag=True, help="Describe only partitions with replicas out of sync.")
@click.option("--unavailable-partitions", is_flag=True, help="Describe only partitions without a leader that lives.")
@click.option("--under-min-isr-partitions", is_flag=True, help="Describe only those below min.insync.replicas.")
@click.option("--at-min-isr-partitions", is_flag=True, help="Describe only those at min.insync.replicas.")
@click.option("--topics-with-overrides", is_flag=True, help="Describe only topics with settings of their own.")
@click.option("--if-exists", is_flag=True, help="Alter, delete or describe only what exists, without an error.")
@click.option("--if-not-exists", is_flag=True, help="Create the topic unless it exists, without an error.")
@click.option("--exclude-internal", is_flag=True, help="Leave internal topics out of a list or a description.")
@click.option("--partition-size-limit-per-response", type=int, metavar="COUNT", help="Partitions a response.")
@output_option
@version_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Create, list, describe, grow and delete topics.

    \b
    ottla topics --create --topic orders --partitions 6 --config retention.ms=86400000
    ottla topics --describe --topic orders
    ottla topics --list --output json
    """
    check_options(options)
    try:
        with admin_of(options["bootstrap_server"], options["command_config"]) as admin:
            run(admin, options)
    except Exception as error:
        from ottla.errors import KafkaError

        if not isinstance(error, KafkaError | Refused):
            raise
        # On standard output, where Kafka's tool puts it.
        click.echo(f"Error while executing topic command : {one_line(error)}")
        ctx.exit(1)


def check_options(options: Mapping[str, Any]) -> None:
    """`Refused` for what makes no sense together, in Kafka's words."""
    action = exactly_one(
        {name: options[name] for name in ACTIONS},
        "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
    )
    if options["delete_config"]:
        click.echo(
            "delete-config option is no longer supported and deprecated since version 4.0. The config will be fully "
            "removed in future releases.",
            err=True,
        )
    if action == "describe" and options["if_exists"] and not options["topic"] and not options["topic_id"]:
        raise Refused("--topic or --topic-id is required to describe a topic")
    if action not in ("list", "describe") and not options["topic"]:
        raise Refused('Missing required argument "[topic]"')
    if action == "alter":
        if options["config"]:
            raise Refused(
                'Option combination "[bootstrap-server, config]" can\'t be used with option "[alter]" '
                "(To alter topic configurations, the kafka-configs tool can be used.)"
            )
        if options["partitions"] is None:
            raise Refused('Missing required argument "[partitions]"')
    _check_belonging(options)


def _check_belonging(options: Mapping[str, Any]) -> None:
    """Options that belong to some actions only."""
    belongs = {
        "config": ("alter", "create"),
        "partitions": ("alter", "create"),
        "replication_factor": ("create",),
        "replica_assignment": ("alter", "create"),
        **dict.fromkeys((*REPORTS, "topics_with_overrides"), ("describe",)),
        "if_exists": ("alter", "delete", "describe"),
        "if_not_exists": ("create",),
        "exclude_internal": ("list", "describe"),
    }
    for name, actions in belongs.items():
        others = {action: options[action] for action in ACTIONS if action not in actions}
        if name in REPORTS:
            others["topics-with-overrides"] = options["topics_with_overrides"]
        is_used = options[name] is not None and options[name] is not False and options[name] != ()
        not_together(name.replace("_", "-"), is_used, others)
    if options["create"]:
        counts = {name: options[name.replace("-", "_")] is not None for name in ("partitions", "replication-factor")}
        not_together("replica-assignment", options["replica_assignment"], counts)


def run(admin: Admin, options: Mapping[str, Any]) -> None:
    if options["create"]:
        create(admin, options)
    elif options["list"]:
        names = find_topics(admin, options["topic"], exclude_internal=options["exclude_internal"])
        if options["output"] == "json":
            print_json(names)
        else:
            click.echo("\n".join(names))
    elif options["describe"]:
        describe(admin, options)
    elif options["alter"]:
        alter(admin, options)
    else:
        names = find_existing(admin, options)
        admin.delete_topics(names).all()


def find_topics(admin: Admin, pattern: str | None, *, exclude_internal: bool = False) -> list[str]:
    """The names of all topics, or of those that match, in order."""
    include = IncludeList(pattern) if pattern is not None else None
    return [
        name
        for name in sorted(admin.list_topics(include_internal=not exclude_internal))
        if (
            include.allows(name, exclude_internal=exclude_internal)
            if include is not None
            else not (exclude_internal and name in INTERNAL_TOPICS)
        )
    ]


def find_existing(admin: Admin, options: Mapping[str, Any]) -> list[str]:
    names = find_topics(admin, options["topic"], exclude_internal=options["exclude_internal"])
    if options["topic"] and not names and not options["if_exists"]:
        raise Refused(f"Topic '{options['topic']}' does not exist as expected")
    return names


# Create and alter


def create(admin: Admin, options: Mapping[str, Any]) -> None:
    from ottla.client.admin import NewTopic
    from ottla.errors import TopicAlreadyExists

    name = options["topic"]
    partitions, replication_factor = options["partitions"], options["replication_factor"]
    assignments = parse_replica_assignment(options["replica_assignment"])
    configs = parse_configs(options["config"])
    if "." in name or "_" in name:
        click.echo(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    if replication_factor is not None and not 1 <= replication_factor <= REPLICATION_FACTOR_MAX:
        raise Refused(f"The replication factor must be between 1 and {REPLICATION_FACTOR_MAX} inclusive")
    if partitions is not None and partitions < 1:
        raise Refused("The partitions must be greater than 0")
    topic = NewTopic(name, partitions, replication_factor, assignments or None, configs)
    try:
        made = admin.create_topics([topic]).all()
    except TopicAlreadyExists:
        if not options["if_not_exists"]:
            raise
        return
    if options["output"] == "json":
        print_json({"topic": name, "topicId": str(made[name].topic_id), "partitions": made[name].partition_count})
    else:
        click.echo(f"Created topic {name}.")


def parse_configs(given: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` each; a value has no `=` of its own, as in Kafka's tool."""
    pairs = [re.split(r"\s*=\s*", item) for item in given]
    for pair in pairs:
        while pair and not pair[-1]:
            pair.pop()  # Java's split leaves empty ends out
    if any(len(pair) != 2 for pair in pairs):
        raise Refused(
            'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
        )
    return {name.strip(): value.strip() for name, value in pairs}


def parse_replica_assignment(text: str | None) -> dict[int, list[int]]:
    """`1:2,2:3`: the replicas of each partition."""
    found: dict[int, list[int]] = {}
    for index, part in enumerate(text.split(",") if text else []):
        try:
            brokers = [int(broker) for broker in part.split(":")]
        except ValueError:
            raise Refused(f'For input string: "{part}"') from None
        twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if twice:
            raise Refused(f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}")
        found[index] = brokers
        if len(brokers) != len(found[0]):
            raise Refused(f"Partition {index} has different replication factor: {brokers}")
    return found


def alter(admin: Admin, options: Mapping[str, Any]) -> None:
    from ottla.client.admin import NewPartitions

    names = find_existing(admin, options)
    if not names:
        return
    assignments = parse_replica_assignment(options["replica_assignment"])
    if assignments:
        described = admin.describe_topics(names).all()
        changes = {
            str(name): NewPartitions(options["partitions"], list(assignments.values())[len(topic.partitions) :])
            for name, topic in described.items()
        }
    else:
        changes = {name: NewPartitions(options["partitions"]) for name in names}
    admin.create_partitions(changes).all()


# Describe


def describe(admin: Admin, options: Mapping[str, Any]) -> None:
    from ottla.client.admin import ConfigResource
    from ottla.types import TopicPartition

    found_topics = {topic.name: topic for topic in _described(admin, options)}
    topics = [found_topics[name] for name in string_order(found_topics)]
    if not topics:
        if options["output"] == "json":
            print_json([])
        return
    resources = {topic.name: ConfigResource.topic(topic.name) for topic in topics}
    configs = admin.describe_configs(resources.values()).all()
    alive = {node.node_id for node in admin.describe_cluster().nodes}
    partitions = [TopicPartition(topic.name, one.partition) for topic in topics for one in topic.partitions]
    reassignments = _reassignments(admin, partitions)
    view = View(options, alive, reassignments)
    found = [view.of(topic, configs[resources[topic.name]]) for topic in topics]
    if options["output"] == "json":
        print_json([one for one in (view.as_json(*item) for item in found) if one is not None])
        return
    for item in found:
        for line in view.lines(*item):
            click.echo(line)


def _described(admin: Admin, options: Mapping[str, Any]) -> list[TopicDescription]:
    page = options["partition_size_limit_per_response"] or PARTITIONS_A_RESPONSE
    if options["topic_id"]:
        from ottla.types import ZERO_UUID, Uuid

        try:
            wanted = Uuid.parse(options["topic_id"])
        except ValueError as error:
            raise Refused(str(error)) from None
        if wanted != ZERO_UUID:
            if options["topic"] and options["if_exists"]:
                click.echo(
                    "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
                    "Uuid.ZERO_UUID"
                )
            known = admin.list_topics(include_internal=not options["exclude_internal"]).values()
            if all(one.topic_id != wanted for one in known):
                if options["if_exists"]:
                    return []
                raise Refused(f"TopicId '{wanted}' does not exist as expected")
            return list(admin.describe_topics([wanted]).all().values())
    names = find_existing(admin, options)
    return list(admin.describe_topics(names, partitions_a_page=page).all().values()) if names else []


def _reassignments(admin: Admin, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionReassignment]:
    from ottla.errors import ClusterAuthorizationFailed, UnsupportedVersion

    try:
        return admin.list_partition_reassignments(partitions)
    except (UnsupportedVersion, ClusterAuthorizationFailed):
        return {}  # what is being moved is left out, as Kafka's tool does


class View:
    """What is shown of topics, by the options."""

    def __init__(
        self,
        options: Mapping[str, Any],
        alive: set[int],
        reassignments: Mapping[TopicPartition, PartitionReassignment],
    ) -> None:
        self._options = options
        self._alive = alive
        self._reassignments = reassignments
        self._shows_topics = not any(options[name] for name in REPORTS)
        self._shows_partitions = not options["topics_with_overrides"]

    def of(
        self, topic: TopicDescription, config: Config
    ) -> tuple[TopicDescription, dict[str, str], list[PartitionDescription], bool]:
        """A topic, its own settings, the partitions to show, and whether the topic itself is shown."""
        own = {name: config[name].value or "" for name in string_order(config) if not config[name].is_default}
        shown = self._shows_topics and (not self._options["topics_with_overrides"] or bool(own))
        minimum = int(config["min.insync.replicas"].value or "1")
        partitions = [
            one
            for one in sorted(topic.partitions, key=lambda one: one.partition)
            if self._shows_partitions and self._is_shown(topic.name, one, minimum)
        ]
        return topic, own, partitions, shown

    def _is_shown(self, topic: str, one: PartitionDescription, minimum: int) -> bool:
        options = self._options
        in_sync = len(one.isr)
        return (
            self._shows_topics
            or (options["under_replicated_partitions"] and self._replication_factor(topic, one) > in_sync)
            or (options["unavailable_partitions"] and (one.leader is None or one.leader.node_id not in self._alive))
            or (options["under_min_isr_partitions"] and (one.leader is None or in_sync < minimum))
            or (options["at_min_isr_partitions"] and in_sync == minimum)
        )

    def _reassignment(self, topic: str, one: PartitionDescription) -> PartitionReassignment | None:
        from ottla.types import TopicPartition

        return self._reassignments.get(TopicPartition(topic, one.partition))

    def _replication_factor(self, topic: str, one: PartitionDescription) -> int:
        moving = self._reassignment(topic, one)
        replicas = {node.node_id for node in one.replicas}
        if moving is None or not replicas & {*moving.adding_replicas, *moving.removing_replicas}:
            return len(one.replicas)
        return len(moving.replicas) - len(moving.adding_replicas)

    def lines(
        self, topic: TopicDescription, own: Mapping[str, str], partitions: Sequence[PartitionDescription], shown: bool
    ) -> list[str]:
        """As Kafka's tool prints a topic."""
        found = []
        if shown:
            identity = f"\tTopicId: {topic.topic_id}" if any(topic.topic_id) else ""
            configs = ",".join(f"{name}={value}" for name, value in own.items())
            found.append(
                f"Topic: {topic.name}{identity}\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: "
                f"{self._replication_factor(topic.name, topic.partitions[0])}\tConfigs: {configs}"
            )
        return found + [self._line(topic.name, one) for one in partitions]

    def _line(self, topic: str, one: PartitionDescription) -> str:
        parts = [
            f"\tTopic: {topic}",
            f"Partition: {one.partition}",
            f"Leader: {one.leader.node_id if one.leader is not None else 'none'}",
            f"Replicas: {_ids(one.replicas)}",
            f"Isr: {_ids(one.isr)}",
        ]
        moving = self._reassignment(topic, one)
        if moving is not None:
            parts.append("Adding Replicas: " + ",".join(map(str, moving.adding_replicas)))
            parts.append("Removing Replicas: " + ",".join(map(str, moving.removing_replicas)))
        parts.append(f"Elr: {_ids(one.elr) if one.elr is not None else 'N/A'}")
        parts.append(f"LastKnownElr: {_ids(one.last_known_elr) if one.last_known_elr is not None else 'N/A'}")
        return "\t".join(parts)

    def as_json(
        self, topic: TopicDescription, own: Mapping[str, str], partitions: Sequence[PartitionDescription], shown: bool
    ) -> dict[str, object] | None:
        if not shown and not partitions:
            return None
        return {
            "topic": topic.name,
            "topicId": str(topic.topic_id),
            "partitionCount": len(topic.partitions),
            "replicationFactor": self._replication_factor(topic.name, topic.partitions[0]),
            "configs": dict(own),
            "partitions": [
                {
                    "partition": one.partition,
                    "leader": one.leader.node_id if one.leader is not None else None,
                    "replicas": [node.node_id for node in one.replicas],
                    "isr": [node.node_id for node in one.isr],
                    "elr": None if one.elr is None else [node.node_id for node in one.elr],
                    "lastKnownElr": None
                    if one.last_known_elr is None
                    else [node.node_id for node in one.last_known_elr],
                }
                for one in partitions
            ],
        }


def _ids(nodes: Sequence[Any]) -> str:
    return ",".join(str(node.node_id) for node in nodes)
