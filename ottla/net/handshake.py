"""What is said on a new connection before it is ready: exchanges of requests and responses, one after the other.

An `Exchange` is sans-io. `VersionsExchange` is the one there is. SASL's place is behind it, when the versions of its
requests are known. TLS is no exchange: it stands below the frames, so a stream with TLS is connected when that is done.
Called by `connection`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla import __version__
from ottla.errors import UnsupportedVersion, error_class
from ottla.net.versions import ApiVersions
from ottla.wire import APIS, Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from ottla.net.connection import Connection

API_VERSIONS_KEY = 18
SOFTWARE_NAME = "ottla"


class Exchange(Protocol):
    """A conversation with a peer on a connection that is not ready yet."""

    def step(self, connection: Connection, response: Message | None) -> tuple[Message, int] | None:
        """What to ask next and in which version: first, with None, and then after each response. None ends it.

        A `KafkaError` is the end of the connection: the peer refuses.
        """
        ...


class VersionsExchange:
    """Learns what the peer speaks: `connection.versions`, known when this has ended.

    It asks in `version` and, where the peer does not know that one, in the newest that it does know (KIP-511).
    """

    def __init__(self, version: int | None = None) -> None:
        """`version` is the newest that both could know, unless it is given."""
        self._version = APIS[API_VERSIONS_KEY].advertised.last if version is None else version

    def step(self, connection: Connection, response: Message | None) -> tuple[Message, int] | None:
        if response is None:
            return self._ask(self._version)
        assert isinstance(response, ApiVersionsResponse), "a connection matches responses to requests"
        told = ApiVersions(response)
        if response.error_code == UnsupportedVersion.code and self._version > 0:
            # Each answer lowers the version, so a peer that knows none cannot keep this going.
            return self._ask(told.usable(API_VERSIONS_KEY, 0, self._version - 1) or 0)
        if response.error_code:
            raise error_class(response.error_code)("the broker refuses to tell which versions it speaks")
        connection.versions = told
        return None

    def _ask(self, version: int) -> tuple[Message, int]:
        self._version = version
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        return request, version
