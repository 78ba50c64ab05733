"""The admin client's requests for the cluster, its features and log dirs (on a fake core)."""

import pytest

from tests.unit.admin.responses import last, responds
from thalweg.errors import ClusterAuthorizationFailedError, IncompatibleBrokerVersion
from thalweg.structs import TopicPartitionReplica


def test_the_cluster_is_described_by_old_brokers_too(admin):
    broker = {"Host": "h", "Port": 1, "Rack": None}
    responds(
        admin,
        DescribeCluster={
            "ErrorCode": 0,
            "ErrorMessage": None,
            "ClusterId": "c",
            "ControllerId": 1,
            "Brokers": [{"BrokerId": 1, **broker, "IsFenced": False}],
            "ClusterAuthorizedOperations": 1 << 5,
        },
        Metadata={
            "ClusterId": "c",
            "ControllerId": 1,
            "Brokers": [{"NodeId": 1, **broker}],
            "Topics": [],
        },
    )
    found = admin.describe_cluster()
    assert (found["cluster_id"], found["controller_id"]) == ("c", 1)
    assert found["brokers"][0]["broker_id"] == found["brokers"][0]["node_id"] == 1
    assert found["authorized_operations"] == ["CREATE"]
    admin._client.versions["DescribeCluster"] = 1
    admin.describe_cluster()
    assert "IncludeFencedBrokers" not in last(admin)[1]
    admin._client.versions["DescribeCluster"] = IncompatibleBrokerVersion("old")
    found = admin.describe_cluster()
    assert found["brokers"][0]["broker_id"] == 1
    assert "topics" not in found


def test_features_are_described_and_updated(admin):
    responds(
        admin,
        ApiVersions={
            "ErrorCode": 0,
            "SupportedFeatures": [{"Name": "f", "MinVersion": 1, "MaxVersion": 3}],
            "FinalizedFeaturesEpoch": 9,
            "FinalizedFeatures": [{"Name": "f", "MinVersionLevel": 1, "MaxVersionLevel": 2}],
        },
        UpdateFeatures={"ErrorCode": 0, "ErrorMessage": None},
    )
    assert admin.describe_features() == {
        "f": {"supported": (1, 3), "finalized": (1, 2), "finalized_epoch": 9}
    }
    assert admin.update_features({"f": 3, "g": ("safe-downgrade", 1)}) == {"f": "OK", "g": "OK"}
    updates = last(admin)[1]["FeatureUpdates"]
    assert [each["UpgradeType"] for each in updates] == [1, 2]
    admin._client.versions["UpdateFeatures"] = 0
    with pytest.raises(IncompatibleBrokerVersion):
        admin.update_features({"f": 3}, validate_only=True)
    assert admin.update_features({"f": 3}) == {"f": "OK"}
    assert last(admin)[1]["FeatureUpdates"][0]["AllowDowngrade"] is False


def test_log_dirs_quorum_and_versions(admin):
    responds(
        admin,
        DescribeLogDirs={"Results": [{"LogDir": "/d", "ErrorCode": 0, "Topics": []}]},
        AlterReplicaLogDirs={
            "Results": [{"TopicName": "t", "Partitions": [{"PartitionIndex": 0, "ErrorCode": 57}]}]
        },
        DescribeQuorum={
            "ErrorCode": 0,
            "ErrorMessage": None,
            "Topics": [{"TopicName": "x", "Partitions": [{"ErrorCode": 0, "LeaderId": 1}]}],
            "Nodes": [],
        },
    )
    assert [each["broker"] for each in admin.describe_log_dirs()] == [1, 2]
    assert admin.describe_log_dirs(brokers=[2])[0]["log_dirs"][0]["log_dir"] == "/d"
    moved = admin.alter_replica_log_dirs({("t", 0, 2): "/e"})
    assert moved[TopicPartitionReplica("t", 0, 2)].errno == 57
    assert last(admin)[2] == 2
    quorum = admin.describe_metadata_quorum()
    assert quorum["topics"][0]["partitions"][0]["error"] is None
    assert admin.api_versions()["Produce"] == (0, 12)
    assert admin.get_broker_version_data(1)["Produce"] == (0, 12)


def test_a_broker_that_tells_no_log_dirs_is_an_error(admin):
    responds(admin, DescribeLogDirs={"ErrorCode": 31, "Results": []})
    with pytest.raises(ClusterAuthorizationFailedError):
        admin.describe_log_dirs(brokers=[1])
