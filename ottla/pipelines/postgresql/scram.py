"""SCRAM-SHA-256 (RFC 5802, RFC 7677) as a client of PostgreSQL speaks it, without any I/O.

Promises: the server has to prove that it knows the password too; a salt or an iteration count that cannot be is an
`AuthenticationError` and costs no more than `ITERATIONS_MAX` hashes. Channel binding is not used. Called by
`connection`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import stringprep
import unicodedata

from ottla.pipelines.errors import PipelineError

MECHANISM = "SCRAM-SHA-256"
ITERATIONS_MAX = 10_000_000
"""Some seconds of hashing; PostgreSQL's default is 4,096."""


class AuthenticationError(PipelineError):
    """Server and client do not agree who the other is."""


class ScramClient:
    """One exchange."""

    def __init__(self, password: str, nonce: str) -> None:
        self._password = saslprep(password).encode()
        self._nonce = nonce
        # PostgreSQL takes the user from the startup message, and an empty name here.
        self._first_bare = f"n=,r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """The answer to the server's challenge."""
        said = _attributes(server_first)
        nonce, salt_text, iterations_text = (said.get(name, "") for name in ("r", "s", "i"))
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationError("the server's nonce does not go on from ours")
        try:
            salt = base64.b64decode(salt_text, validate=True)
        except binascii.Error:
            raise AuthenticationError("the server's salt is not base64") from None
        iterations = int(iterations_text) if iterations_text.isascii() and iterations_text.isdigit() else 0
        if not salt or not 1 <= iterations <= ITERATIONS_MAX:
            raise AuthenticationError("the server's salt or its iteration count is missing or out of range")
        salted = hashlib.pbkdf2_hmac("sha256", self._password, salt, iterations)
        client_key = _hmac(salted, b"Client Key")
        without_proof = f"c=biws,r={nonce}"
        message = f"{self._first_bare},{server_first.decode()},{without_proof}".encode()
        signature = _hmac(hashlib.sha256(client_key).digest(), message)
        self._server_signature = _hmac(_hmac(salted, b"Server Key"), message)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Whether the server knows the password."""
        said = _attributes(server_final)
        if "e" in said:
            raise AuthenticationError(f"the server refuses the password: {said['e']}")
        try:
            found = base64.b64decode(said.get("v", ""), validate=True)
        except binascii.Error:
            found = b""
        if not self._server_signature or not hmac.compare_digest(found, self._server_signature):
            raise AuthenticationError("the server does not prove that it knows the password: is it the right one?")


def saslprep(password: str) -> str:
    """A password in its one form (RFC 4013). One that the rules refuse is taken as it is, as PostgreSQL does."""
    if password.isascii():
        return password
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char for char in password if not stringprep.in_table_b1(char)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    refused = (
        stringprep.in_table_a1, stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3,
        stringprep.in_table_c4, stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7,
        stringprep.in_table_c8, stringprep.in_table_c9,
    )  # fmt: skip
    if not normal or any(is_refused(char) for char in normal for is_refused in refused):
        return password
    is_right_to_left = any(stringprep.in_table_d1(char) for char in normal)
    ends = stringprep.in_table_d1(normal[0]) and stringprep.in_table_d1(normal[-1])
    if is_right_to_left and (not ends or any(stringprep.in_table_d2(char) for char in normal)):
        return password
    return normal


def _attributes(message: bytes) -> dict[str, str]:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise AuthenticationError("the server's message is not UTF-8") from None
    return {name: value for name, equals, value in (part.partition("=") for part in text.split(",")) if equals}


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()
