"""`ClientConfig`: what stands under every client's table, and what was given to it.

Promises: `was_given` tells a value that a person chose from one that is only the default, because several of Kafka's
rules refuse the first and adapt the second. What is adapted or ignored is logged once, when the table is made.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.client.config.common import CommonConfig
from ottla.client.config.security import SecurityConfig
from ottla.config.table import LOW, Setting, boolean, integer, long, string, string_list
from ottla.errors import InvalidConfig

log = logging.getLogger(__name__)

JMX_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"


def _no_java_reporters(name: str, value: tuple[str, ...]) -> None:
    for reporter in value:
        if reporter != JMX_REPORTER:
            raise InvalidConfig(f"{name}: {reporter} is a Java class; a client's metrics() has the numbers")


def _no_providers(name: str, value: tuple[str, ...]) -> None:
    if value:
        raise InvalidConfig(f"{name}: {','.join(value)} would be Java classes; give the values themselves")


class ClientConfig(CommonConfig, SecurityConfig):
    """The settings of every client, and the checks that every client makes."""

    config_providers: Setting[tuple[str, ...]] = Setting(
        "config.providers", string_list, (), check=_no_providers, importance=LOW,
        doc="Java classes that fetch values from elsewhere. Ottla loads none, so only the empty list is taken.",
    )  # fmt: skip
    enable_metrics_push = Setting(
        "enable.metrics.push", boolean, True, importance=LOW,
        doc="Whether the client sends its metrics to the cluster when the cluster subscribes to them (KIP-714).",
    )  # fmt: skip
    metric_reporters: Setting[tuple[str, ...]] = Setting(
        "metric.reporters", string_list, (JMX_REPORTER,), check=_no_java_reporters, importance=LOW,
        doc="Java classes that report metrics. Ottla loads none: `metrics()` of the client has the numbers.",
    )  # fmt: skip
    metrics_num_samples = Setting(
        "metrics.num.samples", integer, 2, min=1, importance=LOW,
        doc="How many windows a rate, an average or a maximum looks back over.",
    )  # fmt: skip
    metrics_recording_level = Setting(
        "metrics.recording.level", string, "INFO", valid=("INFO", "DEBUG", "TRACE"), importance=LOW,
        doc="How much is measured.",
    )  # fmt: skip
    metrics_sample_window_ms = Setting(
        "metrics.sample.window.ms", long, 30_000, min=0, importance=LOW,
        doc="How long such a window is.",
    )  # fmt: skip

    originals: dict[str, object]
    """What was given, under Kafka's names, before it was parsed."""

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        self.originals = dict(values or {})
        super().__init__(values)

    def was_given(self, name: str) -> bool:
        """Whether a person gave the setting a value, whatever the value."""
        return name in self.originals

    def _derive(self) -> None:
        if self.was_given("reconnect.backoff.ms") and not self.was_given("reconnect.backoff.max.ms"):
            log.warning("reconnect.backoff.ms is set and reconnect.backoff.max.ms is not: the wait will not grow")
            self._settle("reconnect.backoff.max.ms", self.reconnect_backoff_ms)
        self._warn_without_growth("retry.backoff.ms", "retry.backoff.max.ms")
        self._warn_without_growth("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms")

    def _warn_without_growth(self, first: str, longest: str) -> None:
        if self.value_of(first) > self.value_of(longest):
            log.warning("%s is above %s: it is always %d ms", first, longest, self.value_of(longest))

    def _settle(self, name: str, value: object) -> None:
        """Put what follows from other settings in the place of a value that nobody gave."""
        self.__dict__[self.settings[name].attribute] = value
