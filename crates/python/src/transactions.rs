//! `Producer`'s calls on transactions: each waits without the GIL for at most `max_block_ms`.

use pyo3::prelude::*;
use thalweg_producer::{GroupMetadata, OffsetToCommit};
use thalweg_protocol::Str;

use crate::gil;
use crate::producer_core::Core;

/// Topic, partition, offset, metadata, leader epoch.
pub(crate) type Offset = (String, i32, i64, String, i32);
/// Id, generation, member, instance.
pub(crate) type Group = (String, i32, String, Option<String>);

pub(crate) fn init(py: Python<'_>, core: &Core) -> PyResult<()> {
    let deadline = core.appender.budget();
    gil::client_call(py, |interrupted| {
        core.client.init_transactions(deadline, interrupted)
    })
}

pub(crate) fn begin(py: Python<'_>, core: &Core) -> PyResult<()> {
    gil::client_call(py, |interrupted| core.client.begin_transaction(interrupted))
}

pub(crate) fn send_offsets(
    py: Python<'_>,
    core: &Core,
    offsets: Vec<Offset>,
    group: Group,
) -> PyResult<()> {
    let (group_id, generation_id, member_id, group_instance_id) = group;
    let group = GroupMetadata {
        group_id: Str::from(group_id),
        generation_id,
        member_id: Str::from(member_id),
        group_instance_id: group_instance_id.map(Str::from),
    };
    let offset = |(topic, partition, offset, metadata, leader_epoch): Offset| {
        let at = OffsetToCommit {
            offset,
            leader_epoch,
            metadata: Str::from(metadata),
        };
        ((Str::from(topic), partition), at)
    };
    let offsets = offsets.into_iter().map(offset).collect();
    let deadline = core.appender.budget();
    gil::client_call(py, |interrupted| {
        core.client
            .send_offsets_to_transaction(group, offsets, deadline, interrupted)
    })
}

pub(crate) fn commit(py: Python<'_>, core: &Core) -> PyResult<()> {
    let deadline = core.appender.budget();
    gil::client_call(py, |interrupted| {
        core.client.commit_transaction(deadline, interrupted)
    })
}

pub(crate) fn abort(py: Python<'_>, core: &Core) -> PyResult<()> {
    let deadline = core.appender.budget();
    gil::client_call(py, |interrupted| {
        core.client.abort_transaction(deadline, interrupted)
    })
}
