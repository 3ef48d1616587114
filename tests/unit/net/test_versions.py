"""Which version of an API two sides use: the highest that both know and the caller allows."""

from __future__ import annotations

import pytest

from ottla.net import ApiVersions
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey

METADATA = 3  # of which we know 0 to 13


@pytest.mark.parametrize(
    ("theirs", "allowed", "used"),
    [
        ((0, 13), (0, 0x7FFF), 13),
        ((0, 99), (0, 0x7FFF), 13),
        ((0, 7), (0, 0x7FFF), 7),
        ((9, 99), (0, 0x7FFF), 13),
        ((0, 13), (0, 5), 5),
        ((0, 13), (5, 5), 5),
        ((0, 13), (13, 20), 13),
        ((0, 13), (14, 20), None),
        ((6, 13), (0, 5), None),
        ((14, 20), (0, 0x7FFF), None),
        ((5, 3), (0, 0x7FFF), None),  # a range that is none
    ],
)
def test_the_highest_version_is_used_that_both_know_and_the_caller_allows(
    theirs: tuple[int, int], allowed: tuple[int, int], used: int | None
) -> None:
    versions = ApiVersions(ApiVersionsResponse(api_keys=[ApiVersion(METADATA, *theirs)]))
    for _ in range(2):  # found out, and remembered
        assert versions.usable(METADATA, *allowed) == used


def test_an_api_that_is_not_offered_cannot_be_used_and_one_that_we_do_not_know_is_of_no_matter() -> None:
    versions = ApiVersions(ApiVersionsResponse(api_keys=[ApiVersion(9999, 0, 3)]))
    assert versions.usable(METADATA) is None
    assert versions.ranges[9999] == (0, 3)


def test_the_features_are_those_of_the_cluster() -> None:
    told = ApiVersionsResponse(finalized_features=[FinalizedFeatureKey("metadata.version", 29, 7)])
    assert ApiVersions(told).features == {"metadata.version": 29}
