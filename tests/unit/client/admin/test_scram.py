"""What an admin sends of a SCRAM password: its salted hash, as RFC 7677 has it, and never the password."""

from __future__ import annotations

import base64

from ottla.client.admin import DeleteScramPassword, FakeAdmin, FakeCluster, ScramMechanism, SetScramPassword
from ottla.errors import UnacceptableCredential, UnsupportedSaslMechanism
from ottla.wire import Message, encode
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


class ScramCluster(FakeCluster):
    """Takes every credential, and keeps the requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[AlterUserScramCredentialsRequest] = []

    def answer(self, node_id: int, request: Message) -> Message:
        if not isinstance(request, AlterUserScramCredentialsRequest):
            return super().answer(node_id, request)
        self.requests.append(request)
        users = {one.name for one in request.upsertions} | {one.name for one in request.deletions}
        return AlterUserScramCredentialsResponse(
            results=[AlterUserScramCredentialsResult(user=user, error_code=0, error_message=None) for user in users]
        )


def test_the_password_is_salted_and_stays_here() -> None:
    cluster = ScramCluster()
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    change = SetScramPassword("user", ScramMechanism.SCRAM_SHA_256, "pencil", iterations=4096, salt=salt)
    FakeAdmin(cluster).alter_user_scram_credentials([change]).all()
    (request,) = cluster.requests
    (sent,) = request.upsertions
    assert (sent.name, sent.mechanism, sent.iterations, sent.salt) == ("user", 1, 4096, salt)
    # RFC 7677, section 3: what its example's keys are made of.
    assert bytes(sent.salted_password).hex() == "c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d"
    assert b"pencil" not in encode(request, 0)
    assert "pencil" not in repr(change)


def test_a_salt_is_made_where_none_is_given() -> None:
    cluster = ScramCluster()
    changes = [SetScramPassword("user", ScramMechanism.SCRAM_SHA_512, "pencil")]
    FakeAdmin(cluster).alter_user_scram_credentials(changes).all()
    (sent,) = cluster.requests[0].upsertions
    assert len(sent.salt) == 20
    assert len(sent.salted_password) == 64


def test_what_cannot_be_a_credential_is_not_sent() -> None:
    cluster = ScramCluster()
    outcomes = FakeAdmin(cluster).alter_user_scram_credentials(
        [
            SetScramPassword("empty", ScramMechanism.SCRAM_SHA_256, ""),
            SetScramPassword("", ScramMechanism.SCRAM_SHA_256, "pencil"),
            DeleteScramPassword("strange", ScramMechanism(99)),
            DeleteScramPassword("good", ScramMechanism.SCRAM_SHA_256),
        ]
    )
    assert isinstance(outcomes["empty"].error, UnacceptableCredential)
    assert isinstance(outcomes[""].error, UnacceptableCredential)
    assert isinstance(outcomes["strange"].error, UnsupportedSaslMechanism)
    assert outcomes["good"].error is None
    assert [one.name for one in cluster.requests[0].deletions] == ["good"]
    assert cluster.requests[0].upsertions == []
