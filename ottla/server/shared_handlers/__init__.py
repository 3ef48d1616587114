"""The APIs that brokers and controllers answer alike; `RequestContext` is what their handlers get (see `handlers`)."""

from __future__ import annotations

SERVED = frozenset(["ApiVersions", "DescribeConfigs", "SaslAuthenticate", "SaslHandshake"])
