"""Kafka's errors: one class per code, raised where a rule is known and turned into its code once, in the dispatcher.

Promises: the code, the name and whether a client may retry are Kafka's. A class's docstring is the message a client
sees; an instance may carry a more specific one. `error_class(code)` is the way back from a code that a peer sent.
"""

from __future__ import annotations

from typing import ClassVar

NONE = 0
"""The code that says there was no error. It has no class: there is nothing to raise."""

_CLASSES: dict[int, type[KafkaError]] = {}


class KafkaError(Exception):
    """The request failed."""

    code: ClassVar[int] = -1
    name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"
    retriable: ClassVar[bool] = False

    def __init_subclass__(cls, *, code: int | None = None) -> None:
        """Register the class under its code. A subclass without a code shares its parent's code and name."""
        if code is not None:
            assert code not in _CLASSES, f"error code {code} is taken by {_CLASSES[code].__name__}"
            cls.code = code
            cls.name = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in cls.__name__)[1:]
            _CLASSES[code] = cls

    @property
    def message(self) -> str:
        """What a client is told: the message given, or the class's own sentence."""
        return str(self.args[0]) if self.args else type(self).__doc__ or self.name

    @property
    def specific_message(self) -> str | None:
        """The message given; None when there is only the class's own sentence, which Kafka often leaves out."""
        return str(self.args[0]) if self.args else None

    def __str__(self) -> str:
        return self.message


class RetriableError(KafkaError):
    """The request failed for now: the same request may succeed later."""

    retriable: ClassVar[bool] = True


def error_class(code: int) -> type[KafkaError]:
    """The class of an error code; a code of a newer Kafka gives an `UnknownServerError` that keeps the code."""
    assert code != NONE, "code 0 is no error"
    found = _CLASSES.get(code)
    if found is None:
        # Codes are int16 on the wire, so this table stays bounded whatever a peer sends.
        found = type(
            "UnknownServerError", (UnknownServerError,), {"code": code, "__doc__": f"Unknown error code {code}."}
        )
        _CLASSES[code] = found
    return found


class InternalError(KafkaError):
    """This side itself failed: `__cause__` is the exception. A bug of ours, or an argument of a wrong type."""


def as_kafka_error(error: Exception, what: str) -> KafkaError:
    """The error itself where it is one of Kafka's; any other as an `InternalError` that says `what` failed."""
    if isinstance(error, KafkaError):
        return error
    failed = InternalError(f"{what}: {type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed


class UnknownServerError(KafkaError, code=-1):
    """The server failed in a way it did not foresee while handling the request."""


class OffsetOutOfRange(KafkaError, code=1):
    """The offset lies outside the range that the partition's log holds."""


class CorruptMessage(RetriableError, code=2):
    """The record batch is damaged: its checksum, size, key or structure is wrong."""


class UnknownTopicOrPartition(RetriableError, code=3):
    """This server hosts no such topic or partition."""


class InvalidFetchSize(KafkaError, code=4):
    """The number of bytes asked for is not valid."""


class LeaderNotAvailable(RetriableError, code=5):
    """The partition has no leader at the moment; an election is under way."""


class NotLeaderOrFollower(RetriableError, code=6):
    """This broker is not the leader, or not a replica, of that partition."""


class RequestTimedOut(RetriableError, code=7):
    """The request was not completed within its time limit."""


class BrokerNotAvailable(KafkaError, code=8):
    """The broker cannot be reached."""


class ReplicaNotAvailable(RetriableError, code=9):
    """The broker does not have that replica at the moment."""


class MessageTooLarge(KafkaError, code=10):
    """The record batch is larger than the server accepts."""


class StaleControllerEpoch(KafkaError, code=11):
    """The request comes from a controller that has since been replaced."""


class OffsetMetadataTooLarge(KafkaError, code=12):
    """The metadata string of the committed offset is too long."""


class NetworkException(RetriableError, code=13):
    """The connection was lost before the response arrived."""


class CoordinatorLoadInProgress(RetriableError, code=14):
    """The coordinator is still loading its state."""


class CoordinatorNotAvailable(RetriableError, code=15):
    """The coordinator is not available."""


class NotCoordinator(RetriableError, code=16):
    """This broker is not the coordinator for that group or transaction."""


class InvalidTopicException(KafkaError, code=17):
    """The topic name is not valid, or the topic may not be used that way."""


class RecordListTooLarge(KafkaError, code=18):
    """The record batch is larger than a log segment may be."""


class NotEnoughReplicas(RetriableError, code=19):
    """Too few replicas are in sync, so the records were refused."""


class NotEnoughReplicasAfterAppend(RetriableError, code=20):
    """The records were appended, but too few replicas are in sync."""


class InvalidRequiredAcks(KafkaError, code=21):
    """The number of acknowledgements asked for is not -1, 0 or 1."""


class IllegalGeneration(KafkaError, code=22):
    """The group's generation is not the one given."""


class InconsistentGroupProtocol(KafkaError, code=23):
    """The member's protocol type or protocols do not fit those of the group."""


class InvalidGroupId(KafkaError, code=24):
    """The group id is not valid."""


class UnknownMemberId(KafkaError, code=25):
    """The coordinator knows no member of that id."""


class InvalidSessionTimeout(KafkaError, code=26):
    """The session timeout is outside the range that the broker allows."""


class RebalanceInProgress(KafkaError, code=27):
    """The group is rebalancing; its members must join again."""


class InvalidCommitOffsetSize(KafkaError, code=28):
    """The committed offset cannot be stored: its record would be too large."""


class TopicAuthorizationFailed(KafkaError, code=29):
    """Not authorized to use that topic."""


class GroupAuthorizationFailed(KafkaError, code=30):
    """Not authorized to use that group."""


class ClusterAuthorizationFailed(KafkaError, code=31):
    """Not authorized to do that to the cluster."""


class InvalidTimestamp(KafkaError, code=32):
    """The record's timestamp is too far from the broker's time."""


class UnsupportedSaslMechanism(KafkaError, code=33):
    """The broker does not offer that SASL mechanism."""


class IllegalSaslState(KafkaError, code=34):
    """The request does not fit the state of the SASL exchange."""


class UnsupportedVersion(KafkaError, code=35):
    """The server does not support that version of the API."""


class TopicAlreadyExists(KafkaError, code=36):
    """A topic of that name already exists."""


class InvalidPartitions(KafkaError, code=37):
    """The number of partitions is not valid."""


class InvalidReplicationFactor(KafkaError, code=38):
    """The replication factor is below one or above the number of brokers."""


class InvalidReplicaAssignment(KafkaError, code=39):
    """The assignment of replicas to brokers is not valid."""


class InvalidConfig(KafkaError, code=40):
    """A setting or its value is not valid."""


class NotController(RetriableError, code=41):
    """This node is not the active controller."""


class InvalidRequest(KafkaError, code=42):
    """The request is malformed or contradicts itself."""


class UnsupportedForMessageFormat(KafkaError, code=43):
    """The records on the broker are in a format that does not allow this request."""


class PolicyViolation(KafkaError, code=44):
    """A policy of the cluster forbids the request."""


class OutOfOrderSequenceNumber(KafkaError, code=45):
    """A sequence number does not follow the one before it."""


class DuplicateSequenceNumber(KafkaError, code=46):
    """The broker has already stored a batch with that sequence number."""


class InvalidProducerEpoch(KafkaError, code=47):
    """The producer's epoch is older than the current one."""


class InvalidTxnState(KafkaError, code=48):
    """The transaction is in a state that does not allow the operation."""


class InvalidProducerIdMapping(KafkaError, code=49):
    """The transactional id is not bound to that producer id."""


class InvalidTransactionTimeout(KafkaError, code=50):
    """The transaction timeout is above what the broker allows."""


class ConcurrentTransactions(RetriableError, code=51):
    """Another operation on the same transaction is still in progress."""


class TransactionCoordinatorFenced(KafkaError, code=52):
    """A newer transaction coordinator has taken over from the sender."""


class TransactionalIdAuthorizationFailed(KafkaError, code=53):
    """Not authorized to use that transactional id."""


class SecurityDisabled(KafkaError, code=54):
    """No authorizer is configured, so there are no access rules to work with."""


class OperationNotAttempted(KafkaError, code=55):
    """The server did not try the operation, because another part of the request failed."""


class KafkaStorageError(RetriableError, code=56):
    """The disk that holds the log failed."""


class LogDirNotFound(KafkaError, code=57):
    """The broker has no such log directory."""


class SaslAuthenticationFailed(KafkaError, code=58):
    """The SASL exchange did not prove who the client is."""


class UnknownProducerId(KafkaError, code=59):
    """The broker holds no state for that producer id; it may have expired with the producer's last records."""


class ReassignmentInProgress(KafkaError, code=60):
    """A reassignment of the partition is already in progress."""


class DelegationTokenAuthDisabled(KafkaError, code=61):
    """Delegation tokens are not enabled."""


class DelegationTokenNotFound(KafkaError, code=62):
    """The server knows no such delegation token."""


class DelegationTokenOwnerMismatch(KafkaError, code=63):
    """The principal is neither the owner nor a renewer of the delegation token."""


class DelegationTokenRequestNotAllowed(KafkaError, code=64):
    """Delegation tokens cannot be requested over this kind of connection."""


class DelegationTokenAuthorizationFailed(KafkaError, code=65):
    """Not authorized to use that delegation token."""


class DelegationTokenExpired(KafkaError, code=66):
    """The delegation token has expired."""


class InvalidPrincipalType(KafkaError, code=67):
    """The principal type is not supported."""


class NonEmptyGroup(KafkaError, code=68):
    """The group still has members."""


class GroupIdNotFound(KafkaError, code=69):
    """There is no group of that id."""


class FetchSessionIdNotFound(RetriableError, code=70):
    """The broker knows no fetch session of that id."""


class InvalidFetchSessionEpoch(RetriableError, code=71):
    """The fetch session's epoch is not the expected one."""


class ListenerNotFound(RetriableError, code=72):
    """The partition's leader has no listener of the name that the request came in on."""


class TopicDeletionDisabled(KafkaError, code=73):
    """The deletion of topics is disabled."""


class FencedLeaderEpoch(RetriableError, code=74):
    """The given leader epoch is older than the broker's."""


class UnknownLeaderEpoch(RetriableError, code=75):
    """The given leader epoch is newer than the broker's."""


class UnsupportedCompressionType(KafkaError, code=76):
    """The client cannot read the partition's compression type."""


class StaleBrokerEpoch(KafkaError, code=77):
    """The broker has registered again since that broker epoch was given out."""


class OffsetNotAvailable(RetriableError, code=78):
    """The new leader's high watermark has not caught up, so the offset is not known yet."""


class MemberIdRequired(KafkaError, code=79):
    """The member must join again with the member id it has just been given."""


class PreferredLeaderNotAvailable(RetriableError, code=80):
    """The preferred leader is not available."""


class GroupMaxSizeReached(KafkaError, code=81):
    """The group is full."""


class FencedInstanceId(KafkaError, code=82):
    """Another member has registered with the same group instance id."""


class EligibleLeadersNotAvailable(RetriableError, code=83):
    """No replica that may lead the partition is available."""


class ElectionNotNeeded(RetriableError, code=84):
    """The partition already has the leader that the election would choose."""


class NoReassignmentInProgress(KafkaError, code=85):
    """No reassignment of the partition is in progress."""


class GroupSubscribedToTopic(KafkaError, code=86):
    """The group is subscribed to the topic, so its offsets cannot be deleted."""


class InvalidRecord(KafkaError, code=87):
    """The broker checked the record and refused it."""


class UnstableOffsetCommit(RetriableError, code=88):
    """A transaction with offsets for that partition has not ended yet."""


class ThrottlingQuotaExceeded(RetriableError, code=89):
    """The quota is exceeded; try again after the throttle time."""


class ProducerFenced(KafkaError, code=90):
    """A newer producer with the same transactional id has taken over."""


class ResourceNotFound(KafkaError, code=91):
    """The request names a resource that does not exist."""


class DuplicateResource(KafkaError, code=92):
    """The request names the same resource twice."""


class UnacceptableCredential(KafkaError, code=93):
    """The credential does not meet the server's requirements."""


class InconsistentVoterSet(KafkaError, code=94):
    """The sender or the receiver is not one of the expected voters."""


class InvalidUpdateVersion(KafkaError, code=95):
    """The version given for the update is not valid."""


class FeatureUpdateFailed(KafkaError, code=96):
    """The finalized features could not be updated."""


class PrincipalDeserializationFailure(KafkaError, code=97):
    """The forwarded request's principal could not be read."""


class SnapshotNotFound(KafkaError, code=98):
    """There is no snapshot of that id."""


class PositionOutOfRange(KafkaError, code=99):
    """The position lies outside the snapshot."""


class UnknownTopicId(RetriableError, code=100):
    """This server hosts no topic of that id."""


class DuplicateBrokerRegistration(KafkaError, code=101):
    """Another live broker has registered that broker id."""


class BrokerIdNotRegistered(KafkaError, code=102):
    """No broker has registered that broker id."""


class InconsistentTopicId(RetriableError, code=103):
    """The log belongs to a topic of another id."""


class InconsistentClusterId(KafkaError, code=104):
    """The cluster id given is not that of this cluster."""


class TransactionalIdNotFound(KafkaError, code=105):
    """There is no transaction state for that transactional id."""


class FetchSessionTopicIdError(RetriableError, code=106):
    """The fetch session mixes topic ids and topic names."""


class IneligibleReplica(KafkaError, code=107):
    """The new in-sync set contains a replica that may not be in it."""


class NewLeaderElected(KafkaError, code=108):
    """The partition was changed as asked, and another leader was elected by it."""


class OffsetMovedToTieredStorage(KafkaError, code=109):
    """The offset is no longer in the local log; it is in tiered storage."""


class FencedMemberEpoch(KafkaError, code=110):
    """The member was fenced: it must give up its partitions and join again."""


class UnreleasedInstanceId(KafkaError, code=111):
    """Another member of the group still holds that instance id."""


class UnsupportedAssignor(KafkaError, code=112):
    """The group does not support that assignor."""


class StaleMemberEpoch(KafkaError, code=113):
    """The member epoch is old; retry with the one the next heartbeat brings."""


class MismatchedEndpointType(KafkaError, code=114):
    """The request was sent to the wrong kind of endpoint: a broker's for a controller's, or the reverse."""


class UnsupportedEndpointType(KafkaError, code=115):
    """That kind of endpoint is not supported."""


class UnknownControllerId(KafkaError, code=116):
    """No controller of that id is known."""


class UnknownSubscriptionId(KafkaError, code=117):
    """The telemetry subscription has changed or is not known."""


class TelemetryTooLarge(KafkaError, code=118):
    """The telemetry payload is larger than the broker accepts."""


class InvalidRegistration(KafkaError, code=119):
    """The controller refused the broker's registration as invalid."""


class TransactionAbortable(KafkaError, code=120):
    """The transaction failed and must be aborted; the transactional id can then be used again."""


class InvalidRecordState(KafkaError, code=121):
    """The delivered record is not in a state that allows the acknowledgement."""


class ShareSessionNotFound(RetriableError, code=122):
    """The broker knows no such share session."""


class InvalidShareSessionEpoch(RetriableError, code=123):
    """The share session's epoch is not the expected one."""


class FencedStateEpoch(KafkaError, code=124):
    """The share group's state epoch is not the expected one."""


class InvalidVoterKey(KafkaError, code=125):
    """The voter's id and directory id are not those of the receiver."""


class DuplicateVoter(KafkaError, code=126):
    """The voter is already in the set of voters."""


class VoterNotFound(KafkaError, code=127):
    """The voter is not in the set of voters."""


class InvalidRegularExpression(KafkaError, code=128):
    """The regular expression cannot be compiled."""


class RebootstrapRequired(KafkaError, code=129):
    """The client's metadata is out of date; it must start again from its bootstrap servers."""


class StreamsInvalidTopology(KafkaError, code=130):
    """The topology of the Streams application is not valid."""


class StreamsInvalidTopologyEpoch(KafkaError, code=131):
    """The topology epoch of the Streams application is not valid."""


class StreamsTopologyFenced(KafkaError, code=132):
    """The topology epoch of the Streams application is older than the group's."""


class ShareSessionLimitReached(RetriableError, code=133):
    """The broker has as many share sessions as it allows."""
