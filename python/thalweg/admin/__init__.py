"""KafkaAdminClient and its types; kafka-python's names.

    create_topics(...) ── a dict in Kafka's own field names ──> _core.Client.request(api, ...)

Each file has one group of admin calls. As in kafka-python 3, results are dicts with Kafka's field
names in snake_case. The method names of kafka-python 2 work too.
"""

from thalweg.admin.acls import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from thalweg.admin.client import KafkaAdminClient
from thalweg.admin.cluster import UpdateFeatureType
from thalweg.admin.configs import (
    AlterConfigOp,
    ConfigFilterType,
    ConfigResource,
    ConfigResourceType,
    ConfigSourceType,
    ConfigType,
)
from thalweg.admin.groups import GroupState, GroupType, MemberToRemove
from thalweg.admin.offsets import IsolationLevel, OffsetSpec, OffsetTimestamp
from thalweg.admin.partitions import NewPartitions
from thalweg.admin.tokens import DelegationToken
from thalweg.admin.topics import NewTopic
from thalweg.admin.transactions import (
    AbortTransactionSpec,
    PartitionProducerState,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from thalweg.admin.users import (
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

__all__ = [
    "ACL",
    "ACLFilter",
    "ACLOperation",
    "ACLPermissionType",
    "ACLResourcePatternType",
    "AbortTransactionSpec",
    "AlterConfigOp",
    "ConfigFilterType",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSourceType",
    "ConfigType",
    "DelegationToken",
    "GroupState",
    "GroupType",
    "IsolationLevel",
    "KafkaAdminClient",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "OffsetTimestamp",
    "PartitionProducerState",
    "ProducerState",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
    "ScramMechanism",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpdateFeatureType",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]
