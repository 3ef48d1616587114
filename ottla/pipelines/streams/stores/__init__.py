"""State stores: what they are called, how they are laid out in bytes, and the topics that carry their changes.

No Spark in here: a store is described (`StoreSpec`), its keys and values turned to bytes (`serdes`, `layout`) its
changelog topic made or checked (`changelog`), and how its state is divided looked at and changed (`scale`).
"""

from ottla.pipelines.streams.stores.changelog import changelog_topic as changelog_topic
from ottla.pipelines.streams.stores.changelog import ensure_changelogs as ensure_changelogs
from ottla.pipelines.streams.stores.layout import StoreKey as StoreKey
from ottla.pipelines.streams.stores.scale import check_scale as check_scale
from ottla.pipelines.streams.stores.scale import other_scales as other_scales
from ottla.pipelines.streams.stores.scale import rescale as rescale
from ottla.pipelines.streams.stores.scale import rescale_topology as rescale_topology
from ottla.pipelines.streams.stores.serdes import Serde as Serde
from ottla.pipelines.streams.stores.serdes import serde as serde
from ottla.pipelines.streams.stores.spec import StoreKind as StoreKind
from ottla.pipelines.streams.stores.spec import StoreSpec as StoreSpec

__all__ = [
    "Serde",
    "StoreKey",
    "StoreKind",
    "StoreSpec",
    "changelog_topic",
    "check_scale",
    "ensure_changelogs",
    "other_scales",
    "rescale",
    "rescale_topology",
    "serde",
]
