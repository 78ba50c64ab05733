use thalweg_protocol::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use thalweg_protocol::messages::{
    add_offsets_to_txn, add_partitions_to_txn, alter_client_quotas, alter_configs,
    alter_user_scram_credentials, create_acls, create_delegation_token, create_partitions,
    create_topics, delete_acls, delete_groups, delete_records, delete_topics, describe_acls,
    describe_client_quotas, describe_cluster, describe_configs, describe_delegation_token,
    describe_groups, describe_log_dirs, describe_producers, describe_topic_partitions,
    describe_transactions, describe_user_scram_credentials, elect_leaders, end_txn,
    expire_delegation_token, fetch, find_coordinator, incremental_alter_configs, init_producer_id,
    list_config_resources, list_groups, list_offsets, list_partition_reassignments,
    list_transactions, metadata, offset_commit, offset_delete, offset_fetch,
    offset_for_leader_epoch, produce, renew_delegation_token, sasl_authenticate, sasl_handshake,
    txn_offset_commit, write_txn_markers,
};
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use super::*;
use crate::{FaultAction, FaultMatch};

fn software() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1".into(),
    }
}

#[test]
fn produce_is_announced_from_0_on_and_served_from_3_on() {
    let mut bench = Bench::new(1);
    let response = bench.ask(&software(), 3);
    let of = |key: ApiKey| response.api_keys.iter().find(|api| api.api_key == key.0);
    let produce = of(ApiKey::PRODUCE).unwrap();
    assert_eq!((produce.min_version, produce.max_version), (0, 13));
    let fetch = of(ApiKey::FETCH).unwrap();
    assert_eq!((fetch.min_version, fetch.max_version), (4, 18));
    assert!(of(ApiKey::JOIN_GROUP).is_none());
    let end_txn = of(ApiKey::END_TXN).unwrap();
    assert_eq!((end_txn.min_version, end_txn.max_version), (0, 5));
    let mut old = frame::encode_request(&produce_request("t", 0, vec![]), 3, 7, None).unwrap();
    old[7] = 2;
    assert!(matches!(
        bench.handle_frame(1, Bytes::from(old).slice(4..)),
        Outcome::Close
    ));
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let mut bench = Bench::new(1);
    let mut request = frame::encode_request(&software(), 4, 7, Some("test")).unwrap();
    request[7] = 99;
    let outcome = bench.handle_frame(1, Bytes::from(request).slice(4..));
    let Outcome::Response(Response { pieces, .. }) = outcome else {
        panic!("no response")
    };
    let mut input = Reader::new(Bytes::from(pieces.concat()).slice(4..));
    assert_eq!(input.i32().unwrap(), 7);
    let response = ApiVersionsResponse::decode(&mut input, 0).unwrap();
    assert_eq!(
        ErrorCode(response.error_code),
        ErrorCode::UNSUPPORTED_VERSION
    );
    assert!(!response.api_keys.is_empty());
    assert_eq!(input.remaining(), 0);
}

#[test]
fn software_without_a_proper_name_is_refused() {
    let mut bench = Bench::new(1);
    for name in ["", "-x", "x.", "a b"] {
        let request = ApiVersionsRequest {
            client_software_name: name.into(),
            ..software()
        };
        let response = bench.ask(&request, 3);
        assert_eq!(ErrorCode(response.error_code), ErrorCode::INVALID_REQUEST);
    }
}

/// Sends the request in every version, with and without an injected error. Each response must be
/// readable.
fn walk<R: Request>(request: &R, bench: &mut Bench) {
    for version in R::KEY.valid_versions().unwrap() {
        if request.encode(&mut Vec::new(), version).is_err() {
            continue;
        }
        for fails in [false, true] {
            if fails {
                let fail = FaultAction::Fail(ErrorCode::KAFKA_STORAGE_ERROR);
                bench.core.faults.add(FaultMatch::default(), fail, Some(1));
            }
            decode::<R>(bench.handle(1, request, version), version);
            bench.core.faults.clear();
        }
    }
}

#[expect(clippy::too_many_lines, reason = "one request for each API")]
#[test]
fn every_api_responds_in_every_version() {
    let mut bench = Bench::new(2);
    let id = bench.create("t", 1, &[]);
    let bench = &mut bench;
    walk(&software(), bench);
    walk(&metadata::MetadataRequest::default(), bench);
    walk(&produce_request("t", 0, batch(&[NOW_MS])), bench);
    walk(
        &produce::ProduceRequest {
            acks: 1,
            ..Default::default()
        },
        bench,
    );
    walk(&fetch_request("t", &[(0, 0)]), bench);
    walk(&fetch::FetchRequest::default(), bench);
    walk(&list_offsets::ListOffsetsRequest::default(), bench);
    walk(&offset_commit::OffsetCommitRequest::default(), bench);
    walk(&offset_fetch::OffsetFetchRequest::default(), bench);
    let group = offset_fetch::OffsetFetchRequestGroup::default();
    let groups = vec![group];
    walk(
        &offset_fetch::OffsetFetchRequest {
            groups,
            ..Default::default()
        },
        bench,
    );
    walk(&find_coordinator::FindCoordinatorRequest::default(), bench);
    walk(&describe_groups::DescribeGroupsRequest::default(), bench);
    walk(&list_groups::ListGroupsRequest::default(), bench);
    walk(&create_topics::CreateTopicsRequest::default(), bench);
    let state = delete_topics::DeleteTopicState {
        name: Some("nope".into()),
        topic_id: Uuid::ZERO,
    };
    let topics = vec![state];
    walk(
        &delete_topics::DeleteTopicsRequest {
            topics,
            ..Default::default()
        },
        bench,
    );
    let topic_names = vec!["nope".into()];
    walk(
        &delete_topics::DeleteTopicsRequest {
            topic_names,
            ..Default::default()
        },
        bench,
    );
    walk(&delete_records::DeleteRecordsRequest::default(), bench);
    walk(&init_producer_id::InitProducerIdRequest::default(), bench);
    walk(
        &offset_for_leader_epoch::OffsetForLeaderEpochRequest::default(),
        bench,
    );
    let resource = |resource_type, resource_name: &str| describe_configs::DescribeConfigsResource {
        resource_type,
        resource_name: resource_name.into(),
        configuration_keys: None,
    };
    let resources = vec![
        resource(2, "t"),
        resource(4, "1"),
        resource(2, "nope"),
        resource(9, ""),
    ];
    let request = describe_configs::DescribeConfigsRequest {
        resources,
        ..Default::default()
    };
    walk(&request, bench);
    walk(&alter_configs::AlterConfigsRequest::default(), bench);
    walk(
        &describe_log_dirs::DescribeLogDirsRequest { topics: None },
        bench,
    );
    walk(
        &create_partitions::CreatePartitionsRequest::default(),
        bench,
    );
    walk(&delete_groups::DeleteGroupsRequest::default(), bench);
    walk(&elect_leaders::ElectLeadersRequest::default(), bench);
    let all = elect_leaders::ElectLeadersRequest {
        topic_partitions: None,
        ..Default::default()
    };
    walk(&all, bench);
    walk(
        &incremental_alter_configs::IncrementalAlterConfigsRequest::default(),
        bench,
    );
    walk(
        &list_partition_reassignments::ListPartitionReassignmentsRequest::default(),
        bench,
    );
    walk(&offset_delete::OffsetDeleteRequest::default(), bench);
    walk(&describe_cluster::DescribeClusterRequest::default(), bench);
    walk(
        &describe_producers::DescribeProducersRequest::default(),
        bench,
    );
    walk(
        &list_config_resources::ListConfigResourcesRequest::default(),
        bench,
    );
    walk(
        &describe_topic_partitions::DescribeTopicPartitionsRequest::default(),
        bench,
    );
    walk_transactions(bench);
    walk_security(bench);
    assert_eq!(bench.core.topology.topic("t").unwrap().id, id);
}

fn walk_transactions(bench: &mut Bench) {
    let topic = add_partitions_to_txn::AddPartitionsToTxnTopic {
        name: "t".into(),
        partitions: vec![0],
    };
    let of_clients = add_partitions_to_txn::AddPartitionsToTxnRequest {
        v3_and_below_topics: vec![topic.clone()],
        ..Default::default()
    };
    walk(&of_clients, bench);
    let transaction = add_partitions_to_txn::AddPartitionsToTxnTransaction {
        topics: vec![topic],
        ..Default::default()
    };
    let of_brokers = add_partitions_to_txn::AddPartitionsToTxnRequest {
        transactions: vec![transaction],
        ..Default::default()
    };
    walk(&of_brokers, bench);
    walk(
        &add_offsets_to_txn::AddOffsetsToTxnRequest::default(),
        bench,
    );
    walk(&end_txn::EndTxnRequest::default(), bench);
    let marker = write_txn_markers::WritableTxnMarker {
        topics: vec![write_txn_markers::WritableTxnMarkerTopic {
            name: "t".into(),
            partition_indexes: vec![0],
        }],
        ..Default::default()
    };
    let markers = vec![marker];
    walk(
        &write_txn_markers::WriteTxnMarkersRequest { markers },
        bench,
    );
    walk(&txn_offset_commit::TxnOffsetCommitRequest::default(), bench);
    let describe = describe_transactions::DescribeTransactionsRequest {
        transactional_ids: vec!["id".into()],
    };
    walk(&describe, bench);
    walk(
        &list_transactions::ListTransactionsRequest::default(),
        bench,
    );
}

/// Sends the requests of logins and of users.
fn walk_security(bench: &mut Bench) {
    walk(&sasl_handshake::SaslHandshakeRequest::default(), bench);
    walk(
        &sasl_authenticate::SaslAuthenticateRequest::default(),
        bench,
    );
    let name = Str::from("alice");
    let renewers = vec![create_delegation_token::CreatableRenewers::default()];
    let create = create_delegation_token::CreateDelegationTokenRequest {
        renewers,
        ..Default::default()
    };
    walk(&create, bench);
    walk(
        &renew_delegation_token::RenewDelegationTokenRequest::default(),
        bench,
    );
    walk(
        &expire_delegation_token::ExpireDelegationTokenRequest::default(),
        bench,
    );
    walk(
        &describe_delegation_token::DescribeDelegationTokenRequest::default(),
        bench,
    );
    walk(
        &describe_client_quotas::DescribeClientQuotasRequest::default(),
        bench,
    );
    let entries = vec![alter_client_quotas::EntryData::default()];
    let alter_quotas = alter_client_quotas::AlterClientQuotasRequest {
        entries,
        validate_only: false,
    };
    walk(&alter_quotas, bench);
    let described = describe_user_scram_credentials::UserName { name: name.clone() };
    let describe = describe_user_scram_credentials::DescribeUserScramCredentialsRequest {
        users: Some(vec![described]),
    };
    walk(&describe, bench);
    let deletion = alter_user_scram_credentials::ScramCredentialDeletion { name, mechanism: 1 };
    let alter = alter_user_scram_credentials::AlterUserScramCredentialsRequest {
        deletions: vec![deletion],
        ..Default::default()
    };
    walk(&alter, bench);
    walk(&describe_acls::DescribeAclsRequest::default(), bench);
    let creations = vec![create_acls::AclCreation::default()];
    walk(&create_acls::CreateAclsRequest { creations }, bench);
    let filters = vec![delete_acls::DeleteAclsFilter::default()];
    walk(&delete_acls::DeleteAclsRequest { filters }, bench);
}

#[test]
fn the_transaction_version_is_announced_as_it_is_set() {
    for level in 0..=2_i16 {
        let level_text = level.to_string();
        let options = [("thalweg.transaction.version", level_text.as_str())];
        let mut bench = Bench::with_options(1, &options);
        let response = bench.ask(&software(), 4);
        let supported = &response.supported_features[0];
        assert_eq!((supported.min_version, supported.max_version), (0, 2));
        let finalized: Vec<i16> = response
            .finalized_features
            .iter()
            .map(|feature| feature.max_version_level)
            .collect();
        assert_eq!(finalized, if level == 0 { vec![] } else { vec![level] });
        assert!(response.finalized_features_epoch >= 0);
        // Version 3 cannot describe a feature that may be off.
        assert!(bench.ask(&software(), 3).supported_features.is_empty());
    }
}
