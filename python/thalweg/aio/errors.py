"""Every error under aiokafka's names, for `from thalweg.aio.errors import ...`.

The classes are those of `thalweg.errors`, so an `except` clause works with either name. Where
aiokafka divides errors differently, its name is an alias of the class that this client raises.
"""

from thalweg.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    CorruptRecordError,
    DelegationTokenAuthDisabledError,
    DelegationTokenAuthorizationFailedError,
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    DelegationTokenRequestNotAllowedError,
    DuplicateSequenceNumberError,
    FetchSessionIdNotFoundError,
    GroupIdNotFoundError,
    IllegalStateError,
    InvalidFetchSessionEpochError,
    InvalidPrincipalTypeError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    ListenerNotFoundError,
    LogDirNotFoundError,
    MemberIdRequiredError,
    NetworkExceptionError,
    NoBrokersAvailable,
    NonEmptyGroupError,
    NotCoordinatorError,
    OperationNotAttemptedError,
    OutOfOrderSequenceNumberError,
    ProducerFencedError,
    ReassignmentInProgressError,
    SaslAuthenticationFailedError,
    SecurityDisabledError,
    TransactionalIdAuthorizationFailedError,
    TransactionCoordinatorFencedError,
    UnknownProducerIdError,
    UnsupportedSaslMechanismError,
    _base,
    _broker,
    _client,
    for_code,
    kafka_errors,
)
from thalweg.errors._base import *  # noqa: F403
from thalweg.errors._broker import *  # noqa: F403
from thalweg.errors._client import *  # noqa: F403

# What the client itself finds wrong.
AuthenticationFailedError = SaslAuthenticationFailedError
AuthenticationMethodNotSupported = UnsupportedSaslMechanismError
KafkaUnavailableError = NoBrokersAvailable
IllegalOperation = IllegalStateError
ProducerClosed = IllegalStateError
ProducerFenced = ProducerFencedError

# Codes of the protocol.
InvalidMessageError = CorruptRecordError
StaleLeaderEpochCodeError = NetworkExceptionError
GroupLoadInProgressError = CoordinatorLoadInProgressError
GroupCoordinatorNotAvailableError = CoordinatorNotAvailableError
NotCoordinatorForGroupError = NotCoordinatorError
OutOfOrderSequenceNumber = OutOfOrderSequenceNumberError
DuplicateSequenceNumber = DuplicateSequenceNumberError
InvalidProducerEpoch = InvalidProducerEpochError
InvalidTxnState = InvalidTxnStateError
InvalidProducerIdMapping = InvalidProducerIdMappingError
InvalidTransactionTimeout = InvalidTransactionTimeoutError
ConcurrentTransactions = ConcurrentTransactionsError
TransactionCoordinatorFenced = TransactionCoordinatorFencedError
TransactionalIdAuthorizationFailed = TransactionalIdAuthorizationFailedError
SecurityDisabled = SecurityDisabledError
OperationNotAttempted = OperationNotAttemptedError
LogDirNotFound = LogDirNotFoundError
SaslAuthenticationFailed = SaslAuthenticationFailedError
UnknownProducerId = UnknownProducerIdError
ReassignmentInProgress = ReassignmentInProgressError
DelegationTokenAuthDisabled = DelegationTokenAuthDisabledError
DelegationTokenNotFound = DelegationTokenNotFoundError
DelegationTokenOwnerMismatch = DelegationTokenOwnerMismatchError
DelegationTokenRequestNotAllowed = DelegationTokenRequestNotAllowedError
DelegationTokenAuthorizationFailed = DelegationTokenAuthorizationFailedError
DelegationTokenExpired = DelegationTokenExpiredError
InvalidPrincipalType = InvalidPrincipalTypeError
NonEmptyGroup = NonEmptyGroupError
GroupIdNotFound = GroupIdNotFoundError
FetchSessionIdNotFound = FetchSessionIdNotFoundError
InvalidFetchSessionEpoch = InvalidFetchSessionEpochError
ListenerNotFound = ListenerNotFoundError
MemberIdRequired = MemberIdRequiredError

__all__ = [
    "AuthenticationFailedError",
    "AuthenticationMethodNotSupported",
    "ConcurrentTransactions",
    "DelegationTokenAuthDisabled",
    "DelegationTokenAuthorizationFailed",
    "DelegationTokenExpired",
    "DelegationTokenNotFound",
    "DelegationTokenOwnerMismatch",
    "DelegationTokenRequestNotAllowed",
    "DuplicateSequenceNumber",
    "FetchSessionIdNotFound",
    "GroupCoordinatorNotAvailableError",
    "GroupIdNotFound",
    "GroupLoadInProgressError",
    "IllegalOperation",
    "InvalidFetchSessionEpoch",
    "InvalidMessageError",
    "InvalidPrincipalType",
    "InvalidProducerEpoch",
    "InvalidProducerIdMapping",
    "InvalidTransactionTimeout",
    "InvalidTxnState",
    "KafkaUnavailableError",
    "ListenerNotFound",
    "LogDirNotFound",
    "MemberIdRequired",
    "NonEmptyGroup",
    "NotCoordinatorForGroupError",
    "OperationNotAttempted",
    "OutOfOrderSequenceNumber",
    "ProducerClosed",
    "ProducerFenced",
    "ReassignmentInProgress",
    "SaslAuthenticationFailed",
    "SecurityDisabled",
    "StaleLeaderEpochCodeError",
    "TransactionCoordinatorFenced",
    "TransactionalIdAuthorizationFailed",
    "UnknownProducerId",
    "for_code",
    "kafka_errors",
]
__all__ += _base.__all__
__all__ += _broker.__all__
__all__ += _client.__all__
