"""Changelog topics: `<application>-<store>-changelog`, compacted, with a record for every change that was committed.

Promises: after `ensure_changelogs` each topic is there and keeps the last record of each key. A topic that is there
and would lose state is refused, never changed. The number of partitions is chosen when a topic is made and is its own
from then on: state lies in Spark's checkpoint, so the topics an application reads may grow beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client import Admin, ConfigResource, NewTopic
from ottla.errors import TopicAlreadyExists
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.stores.spec import StoreSpec


def changelog_topic(application: str, store: str) -> str:
    """The name that Kafka Streams gives it."""
    return f"{application}-{store}-changelog"


def ensure_changelogs(
    admin: Admin, application: str, specs: Iterable[StoreSpec], *, partitions: int, replicas: int | None = None
) -> dict[str, str]:
    """Make the changelog topics that are not there and check those that are; their names by their stores'."""
    wanted = {changelog_topic(application, spec.name): spec for spec in specs}
    there = admin.list_topics(include_internal=True)
    missing = [topic for topic in wanted if topic not in there]
    outcomes = admin.create_topics(
        [NewTopic(topic, partitions, replicas, configs=wanted[topic].topic_settings()) for topic in missing]
    )
    known = [topic for topic in wanted if topic in there]
    for topic in missing:
        try:
            outcomes[topic].result()
        except TopicAlreadyExists:
            known.append(topic)  # another run of the application was faster
    _check_policies(admin, {topic: wanted[topic] for topic in known})
    return {spec.name: topic for topic, spec in wanted.items()}


def _check_policies(admin: Admin, wanted: Mapping[str, StoreSpec]) -> None:
    """Refuse a topic whose records may go while a store still has them."""
    resources = {topic: ConfigResource.topic(topic) for topic in wanted}
    found = admin.describe_configs(resources.values(), names=["cleanup.policy", "retention.ms"])
    for topic, spec in wanted.items():
        config = found[resources[topic]].result()
        policies = {one.strip() for one in (config["cleanup.policy"].value or "").split(",")}
        settings = spec.topic_settings()
        way_out = ", ".join(f"{name}={value}" for name, value in settings.items())
        if "compact" not in policies:
            raise PipelineError(
                f"Topic {topic} has cleanup.policy={','.join(sorted(policies))} and would lose what store {spec.name} "
                f"holds; set {way_out} on it, or give the application another name"
            )
        kept_ms = int(config["retention.ms"].value or -1)
        if "delete" in policies and kept_ms >= 0 and (spec.retention_ms is None or kept_ms < spec.retention_ms):
            raise PipelineError(
                f"Topic {topic} deletes records after {kept_ms} ms, sooner than store {spec.name} does; "
                f"set {way_out} on it"
            )
