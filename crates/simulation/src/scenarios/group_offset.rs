//! A group's offset that transactions commit, for a partition that no client reads.

use std::time::Duration;

use thalweg_cluster::CoordinatorType;
use thalweg_network::producer::ProducerClient;
use thalweg_network::{Request, RequestTarget, VersionChoice};
use thalweg_producer::{GroupMetadata, GroupOffsets, OffsetToCommit};
use thalweg_protocol::Str;
use thalweg_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};

const GROUP: &str = "simulated-group";
const SOURCE: (&str, i32) = ("simulated", 0);

pub(crate) fn group() -> GroupMetadata {
    GroupMetadata {
        group_id: Str::from(GROUP),
        generation_id: -1,
        member_id: Str::from(""),
        group_instance_id: None,
    }
}

pub(crate) fn offsets(offset: i64) -> GroupOffsets {
    let (topic, partition) = SOURCE;
    let at = OffsetToCommit {
        offset,
        leader_epoch: -1,
        metadata: Str::from(""),
    };
    GroupOffsets::from([((Str::from(topic), partition), at)])
}

/// Returns the group's offset, or -1 if there is none. Waits until no open transaction would change
/// it.
pub(crate) async fn committed(client: &ProducerClient) -> i64 {
    loop {
        if let Some(offset) = fetched(client).await {
            return offset;
        }
        client
            .view()
            .forget_coordinator(CoordinatorType::Group, GROUP);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn fetched(client: &ProducerClient) -> Option<i64> {
    let (topic, partition) = SOURCE;
    let body = OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id: GROUP.into(),
            topics: Some(vec![OffsetFetchRequestTopics {
                name: topic.into(),
                partition_indexes: vec![partition],
                ..OffsetFetchRequestTopics::default()
            }]),
            ..OffsetFetchRequestGroup::default()
        }],
        require_stable: true,
        ..OffsetFetchRequest::default()
    };
    let target = RequestTarget::Coordinator {
        kind: CoordinatorType::Group,
        key: Str::from(GROUP),
    };
    let mut request = Request::typed(target, body);
    // The last version that names topics by name.
    request.version = VersionChoice::Exactly(9);
    let response = client.view().request(request).await.ok()?;
    let body = response.decode::<OffsetFetchRequest>().ok()?;
    let group = body.groups.first()?;
    let partition = group.topics.first()?.partitions.first()?;
    let is_good = [group.error_code, partition.error_code] == [0; 2];
    is_good.then_some(partition.committed_offset)
}
