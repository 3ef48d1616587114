"""The connections of an admin, and what they measure: an admin measures nothing else."""

from __future__ import annotations

from ottla.client.config import AdminConfig
from ottla.client.metrics import Metrics, NetworkMetrics
from ottla.client.network import NetworkClient
from ottla.world import ClientWorld


class AdminNetwork(NetworkClient):
    """A `NetworkClient` whose metrics are named as an admin's."""

    def __init__(self, world: ClientWorld, config: AdminConfig, *, name: str) -> None:
        self.metrics = Metrics(
            config.client_id,
            world.clock.monotonic_ms,
            window_ms=config.metrics_sample_window_ms,
            window_count=config.metrics_num_samples,
        )
        super().__init__(world, config, name=name, measured=NetworkMetrics(self.metrics, "admin-client"))
