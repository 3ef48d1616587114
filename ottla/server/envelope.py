"""Envelopes (KIP-590): a client's request on its way from a broker to the controller, in the client's name.

A broker wraps the request with its header, the client's principal and its address, and unwraps the answer; a controller
opens the envelope and wraps its answer. The errors are Kafka's: an envelope that makes no sense is refused with a code
of its own, a request inside that cannot be read with UNSUPPORTED_VERSION, and NOT_CONTROLLER anywhere in an answer
becomes the envelope's, so that the broker asks the controller that is active by now.
Called by the channel to the controller, and by the controller's handler of Envelope.
"""

from __future__ import annotations

import logging
from typing import Any

from ottla.errors import InvalidRequest, NotController, NotLeaderOrFollower, UnknownServerError, UnsupportedVersion
from ottla.server.context import CloseConnection, RequestContext
from ottla.types import Buffer
from ottla.wire import APIS, DecodeError, Message, Struct
from ottla.wire.frames import Request, read_request, read_request_header, read_response, write_request, write_response
from ottla.wire.messages.describe_quorum import DescribeQuorumResponse
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.header import RequestHeader

log = logging.getLogger(__name__)

FORWARDABLE = frozenset(
    [
        "AddRaftVoter",
        "AllocateProducerIds",
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterUserScramCredentials",
        "CreateAcls",
        "CreateDelegationToken",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DeleteTopics",
        "DescribeQuorum",
        "ElectLeaders",
        "ExpireDelegationToken",
        "IncrementalAlterConfigs",
        "ListPartitionReassignments",
        "RemoveRaftVoter",
        "RenewDelegationToken",
        "UnregisterBroker",
        "UpdateFeatures",
    ]
)
"""The APIs that an envelope may hold, as in Kafka."""
UNKNOWN_ADDRESS = bytes(4)
"""For a client that has no address, which is one of a virtual network."""
SIZE_BYTES = 4


# At the broker


def wrap_request(context: RequestContext, request: Message) -> EnvelopeRequest:
    """The envelope of a client's request, or of what a broker has left of it."""
    assert request.schema.api_key is not None, f"{request.schema.name} is no request"
    header = RequestHeader(request.schema.api_key, context.version, context.correlation_id, context.client_id)
    return EnvelopeRequest(
        request_data=bytes(write_request(header, request)[SIZE_BYTES:]),
        request_principal=context.principal.to_bytes(),
        client_host_address=address_bytes(context.peer.host),
    )


def unwrap_answer(envelope: EnvelopeResponse, request: Message, *, version: int) -> Message:
    """The controller's answer to the request in the envelope, which was in `version`.

    `NotController` when the one that was asked is not the active one. An envelope that the controller could not use is
    no client's fault: the client hears of an unknown error. One that holds a version that the controller does not have
    closes the connection: the client asks for the versions again when it comes back.
    """
    assert request.schema.api_key is not None, f"{request.schema.name} is no request"
    if envelope.error_code == UnsupportedVersion.code:
        raise CloseConnection(f"the controller does not have {request.schema.name} v{version}")
    if envelope.error_code == NotController.code:
        raise NotController
    if envelope.error_code:
        log.warning("[Forwarding] The controller refused the envelope of a %s with error %d",
                    request.schema.name, envelope.error_code)  # fmt: skip
        raise UnknownServerError
    try:
        return read_response(envelope.response_data or b"", request.schema.api_key, version).body
    except DecodeError as error:
        log.error("[Forwarding] The controller's answer to a %s cannot be read: %s", request.schema.name, error)
        raise UnknownServerError from error


def address_bytes(host: str) -> bytes:
    """An IP address as Java has it in bytes: 4, or 16; one of version 4 that is written as one of version 6 is 4."""
    from ipaddress import IPv6Address, ip_address  # few nodes need it

    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return UNKNOWN_ADDRESS
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).packed


# At the controller


def read_address(data: Buffer) -> str:
    """The client's IP address; `InvalidRequest` when it has neither 4 nor 16 bytes."""
    from ipaddress import ip_address  # few nodes need it

    try:
        return str(ip_address(bytes(data)))
    except ValueError:
        raise InvalidRequest("Failed to parse client address from envelope") from None


def open_request(data: Buffer) -> Request:
    """The request in an envelope."""
    try:
        header, _ = read_request_header(data)
    except (DecodeError, InvalidRequest) as error:
        raise UnsupportedVersion("Failed to parse request header from envelope") from error
    api = APIS[header.request_api_key]
    if api.is_removed:
        raise UnsupportedVersion(f"Kafka 4 has no version of {api.name}")
    if api.name not in FORWARDABLE:
        raise InvalidRequest(f"API {api.name} is not enabled or is not eligible for forwarding")
    try:
        return read_request(data)
    except DecodeError as error:
        raise UnsupportedVersion(f"Failed to parse forwarded request with header {header}") from error


def wrap_answer(response: Message, correlation_id: int, *, version: int) -> EnvelopeResponse:
    """The envelope of an answer."""
    moved = NotLeaderOrFollower.code if isinstance(response, DescribeQuorumResponse) else NotController.code
    if has_error(response, moved):
        return EnvelopeResponse(error_code=NotController.code)
    parts: list[Any] = write_response(correlation_id, response, version)
    return EnvelopeResponse(response_data=b"".join(parts)[SIZE_BYTES:])


def has_error(message: Struct, code: int) -> bool:
    """Whether the code stands in any `error_code` of a response."""
    for field in message.schema.fields:
        value = getattr(message, field.name)
        if field.name == "error_code" and value == code:
            return True
        parts = value if isinstance(value, list) else [value]
        if any(isinstance(part, Struct) and has_error(part, code) for part in parts):
            return True
    return False
