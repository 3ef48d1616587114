"""`ottla/server/handlers/list_config_resources.py`."""

from __future__ import annotations

from ottla.metadata import CLIENT_METRICS, GROUP, TOPIC
from ottla.server.handlers import list_config_resources
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.unit.server.nodes import ask, image_of, topic_image

IMAGE = image_of(
    topic_image("a"), configs={(CLIENT_METRICS, "m"): {}, (GROUP, "g"): {}, (TOPIC, "a"): {"retention.ms": "1"}}
)


def test_version_0_lists_client_metrics_only() -> None:
    response = ask(list_config_resources, ListConfigResourcesRequest(), 0, image=IMAGE)
    assert [resource.resource_name for resource in response.config_resources] == ["m"]


def test_version_1_lists_the_types_asked_for_or_all() -> None:
    everything = ask(list_config_resources, ListConfigResourcesRequest(), 1, image=IMAGE).config_resources
    assert [(resource.resource_type, resource.resource_name) for resource in everything] == [
        (32, "g"),
        (16, "m"),
        (8, "1"),
        (4, "1"),
        (2, "a"),
    ]
    topics = ask(list_config_resources, ListConfigResourcesRequest([2]), 1, image=IMAGE).config_resources
    assert [(resource.resource_type, resource.resource_name) for resource in topics] == [(2, "a")]
