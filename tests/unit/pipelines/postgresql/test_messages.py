"""Frames, messages and SCRAM, whole and damaged. The exchange of SCRAM is the example of RFC 7677."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from ottla.pipelines.postgresql.messages import (
    FRAME_BYTES_MAX,
    Frames,
    ProtocolError,
    Reader,
    data_row,
    error_fields,
    framed,
    row_description,
    sasl_mechanisms,
    startup,
)
from ottla.pipelines.postgresql.scram import AuthenticationError, ScramClient, saslprep
from tests.support.mutation import mutations, truncations

ERROR = b'SFEHLER\0VERROR\0C42P01\0Mrelation "x" does\nnot exist\0Hcreate it\0P15\0\0'
ROW = struct.pack("!hi2sii", 3, 2, b"ab", -1, 0)
DESCRIPTION = struct.pack("!h", 1) + b"id\0" + struct.pack("!ihihih", 0, 0, 23, 4, -1, 0)
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_frames_come_out_however_they_went_in() -> None:
    sent = [(b"T", b""), (b"d", b"x" * 200_000), (b"Z", b"I")] * 3
    data = b"".join(framed(kind, body) for kind, body in sent)
    source = random.Random(5)
    for _ in range(20):
        frames, found, at = Frames(), [], 0
        while at < len(data):
            size = source.choice((1, 3, 7, 5000, 300_000))
            frames.feed(data[at : at + size])
            at += size
            while (message := frames.next()) is not None:
                found.append(message)
        assert found == sent


def test_a_length_that_cannot_be_is_refused_before_it_is_waited_for() -> None:
    for length in (0, 3, -1, FRAME_BYTES_MAX + 1):
        frames = Frames()
        frames.feed(struct.pack("!ci", b"d", length))
        with pytest.raises(ProtocolError, match="claims a length"):
            frames.next()


def test_messages_say_what_they_say() -> None:
    fields = error_fields(ERROR)
    assert (fields.severity, fields.sqlstate, fields.hint) == ("ERROR", "42P01", "create it")
    assert fields.line == 'relation "x" does not exist | create it (SQLSTATE 42P01)'
    assert data_row(ROW) == ["ab", None, ""]
    assert row_description(DESCRIPTION) == [("id", 23)]
    assert sasl_mechanisms(Reader(b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0", "x")) == [
        "SCRAM-SHA-256-PLUS", "SCRAM-SHA-256",
    ]  # fmt: skip
    assert startup({"user": "é"}) == b"\0\0\0\x11\0\x03\0\0user\0\xc3\xa9\0\0"


@pytest.mark.parametrize(("read", "data"), [(error_fields, ERROR), (data_row, ROW), (row_description, DESCRIPTION)])
def test_damaged_messages_are_read_or_refused(read: Callable[[bytes], object], data: bytes) -> None:
    for cut in truncations(data):
        with pytest.raises(ProtocolError):
            read(cut)
    refused = 0
    for damaged in mutations(data, seed=11, rounds=2000):
        try:
            read(damaged)
        except ProtocolError:
            refused += 1
    assert refused > 100


def test_scram_is_that_of_the_standard() -> None:
    client = ScramClient("pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=,r=rOprNGfwEbeRWgbNEkqO"
    # The standard's example has a user in its first message, PostgreSQL none, so the proof is another.
    client._first_bare = "n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = client.final(SERVER_FIRST)
    assert final.endswith(b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client.verify(SERVER_FINAL)
    with pytest.raises(AuthenticationError, match="does not prove"):
        client.verify(SERVER_FINAL.replace(b"6rri", b"7rri"))
    with pytest.raises(AuthenticationError, match="refuses the password: other-error"):
        client.verify(b"e=other-error")


@pytest.mark.parametrize(
    "challenge",
    [
        b"", b"\xff", b"r=other,s=W22Z,i=1", b"r=abc,s=W22Z,i=1", b"r=abcd,s=,i=1", b"r=abcd,s=W22Z,i=0",
        b"r=abcd,s=W22Z,i=10000001", b"r=abcd,s=W22Z,i=-5", b"r=abcd,s=!,i=1", b"r=abcd,s=W22Z",
    ],
)  # fmt: skip
def test_a_challenge_that_cannot_be_is_refused(challenge: bytes) -> None:
    with pytest.raises(AuthenticationError):
        ScramClient("x", "abc").final(challenge)


def test_a_server_that_proves_nothing_is_not_believed() -> None:
    with pytest.raises(AuthenticationError, match="does not prove"):
        ScramClient("x", "abc").verify(b"v=")


def test_passwords_have_one_form() -> None:
    assert saslprep("plain") == "plain"
    assert saslprep("I\u00adX\u00a0\u2168") == "IX IX"
    assert saslprep("a\u0007é") == "a\u0007é", "what the rules refuse is taken as it is"
