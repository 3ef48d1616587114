"""What a peer speaks: the versions of each API, and the features of its cluster, as ApiVersions told them."""

from __future__ import annotations

from ottla.wire import APIS, Versions
from ottla.wire.messages.api_versions import ApiVersionsResponse

VERSION_MAX = 0x7FFF
NONE = Versions(0, -1)
"""Of an API that the peer does not offer."""


class ApiVersions:
    """What a broker or controller speaks, and the features of its cluster."""

    __slots__ = ("_common", "features", "ranges")

    def __init__(self, response: ApiVersionsResponse) -> None:
        self.ranges = {
            one.api_key: Versions(one.min_version, one.max_version)
            for one in response.api_keys
            if one.min_version <= one.max_version
        }
        self._common: dict[int, Versions] = {}
        """What both sides know, of the APIs that were asked for."""
        self.features = {one.name: one.max_version_level for one in response.finalized_features}

    def usable(self, api_key: int, version_min: int = 0, version_max: int = VERSION_MAX) -> int | None:
        """The highest version that both sides know and the caller allows; None when there is none."""
        common = self._common.get(api_key)
        if common is None:
            theirs, ours = self.ranges.get(api_key, NONE), APIS[api_key].advertised
            common = Versions(max(theirs.first, ours.first), min(theirs.last, ours.last))
            self._common[api_key] = common
        version = min(common.last, version_max)
        return version if version >= max(common.first, version_min) else None
