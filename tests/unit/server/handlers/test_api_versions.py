"""`ottla/server/shared_handlers/api_versions.py`, asked over real sockets."""

from __future__ import annotations

import pytest

from ottla.errors import InvalidRequest, UnsupportedVersion
from ottla.server.roles import BROKER
from ottla.wire import APIS
from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.unit.server.nodes import FakeQuorum, Server, serve


@pytest.mark.parametrize("version", range(5))
def test_every_version_tells_the_apis_that_are_served_and_their_ranges(version: int) -> None:
    async def ask(server: Server) -> None:
        client = await server.client()
        request = ApiVersionsRequest("test", "1.0") if version >= 3 else ApiVersionsRequest()
        response = await client.ask(request, version)
        assert response.error_code == 0
        told = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        names = set(BROKER.packages) - BROKER.unadvertised
        assert told == {api.key: api.advertised for api in APIS.values() if api.name in names}
        assert told[18] == (0, 4)

    serve(ask)


def test_features_are_told_with_their_epoch_and_a_lowest_level_of_zero_only_from_version_4() -> None:
    async def ask(server: Server) -> None:
        client = await server.client()
        all_features = server.node.supported_features
        from_level_1 = {name: levels for name, levels in all_features.items() if levels[0] > 0}
        assert set(from_level_1) == {"metadata.version"}
        for version, expected in ((3, from_level_1), (4, all_features)):
            response = await client.ask(ApiVersionsRequest("test", "1.0"), version)
            assert {f.name: (f.min_version, f.max_version) for f in response.supported_features} == expected
            assert [(f.name, f.min_version_level, f.max_version_level) for f in response.finalized_features] == [
                ("metadata.version", 30, 30),
                ("kraft.version", 1, 1),
            ]
            assert response.finalized_features_epoch == 7

    serve(ask, quorum=FakeQuorum(kraft_version=1))


def test_a_version_from_the_future_is_answered_in_version_0_with_the_versions_that_are_served() -> None:
    async def ask(server: Server) -> None:
        client = await server.client()
        frame = bytearray.fromhex("0000000c 0012 0063 00000005 ffff 0000".replace(" ", ""))
        await client.send_raw(frame)
        response = await client.receive(ApiVersionsRequest(), 0, 5)
        assert response.error_code == UnsupportedVersion.code
        assert [(key.api_key, key.min_version, key.max_version) for key in response.api_keys] == [(18, 0, 4)]
        assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0

    serve(ask)


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("ok", ""), ("-x", "1"), ("a b", "1"), ("ok", "1.0-")])
def test_software_that_does_not_name_itself_properly_is_told_so(name: str, version: str) -> None:
    async def ask(server: Server) -> None:
        client = await server.client()
        response = await client.ask(ApiVersionsRequest(name, version), 4)
        assert response.error_code == InvalidRequest.code
        assert response.api_keys == []

    serve(ask)
