"""What a store is: its name, kind, layouts and how long its windows are kept."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.stores.serdes import Serde, serde

DAY_MS = 24 * 60 * 60 * 1000
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class StoreKind(enum.Enum):
    """How the keys of a store are made up."""

    KEY_VALUE = "key-value"
    WINDOW = "window"
    SESSION = "session"
    MAP = "map"
    """Keys of its own under each record key: what a processor's map store is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec:
    """A named store. Everybody who writes or reads it has to have the same specification."""

    name: str
    kind: StoreKind = StoreKind.KEY_VALUE
    key: Serde = field(default_factory=lambda: serde("string"))
    value: Serde = field(default_factory=lambda: serde("string"))
    map_key: Serde = field(default_factory=lambda: serde("string"))
    """The layout of a map store's inner keys."""
    window_ms: int | None = None
    """The size of the windows of a window store; a window's key has only its start."""
    retention_ms: int | None = None
    """How long windows are kept, by the newest one's time. None: for ever."""
    ttl_ms: int | None = None
    """How long a processor's entry lives after it was last put. None: for ever."""
    logged: bool = True
    """Whether its changes go to a changelog topic. Without one it cannot be asked."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise PipelineError(f"{self.name!r} is no name for a store: letters, digits, dots, dashes and underscores")
        if (self.kind is StoreKind.WINDOW) != (self.window_ms is not None):
            raise PipelineError(f"Store {self.name}: window_ms goes with a window store, and only with one")
        if self.window_ms is not None and self.window_ms <= 0:
            raise PipelineError(f"Store {self.name}: window_ms must be positive")
        if self.ttl_ms is not None and (self.is_windowed or self.ttl_ms <= 0):
            raise PipelineError(
                f"Store {self.name}: ttl_ms must be positive; windowed stores have retention_ms instead"
            )
        if self.retention_ms is not None:
            if not self.is_windowed:
                raise PipelineError(f"Store {self.name}: only windowed stores have a retention")
            if self.retention_ms < (self.window_ms or 1):
                raise PipelineError(f"Store {self.name}: the retention must not be shorter than a window")

    @property
    def is_windowed(self) -> bool:
        return self.kind in (StoreKind.WINDOW, StoreKind.SESSION)

    def topic_settings(self) -> dict[str, str]:
        """The settings of its changelog topic, those that Kafka Streams gives it.

        A windowed store that forgets has its old windows deleted by the broker too, a day later than it could be,
        as records may come late.
        """
        if self.retention_ms is None:
            return {"cleanup.policy": "compact"}
        return {"cleanup.policy": "compact,delete", "retention.ms": str(self.retention_ms + DAY_MS)}
