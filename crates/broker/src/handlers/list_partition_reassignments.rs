//! `ListPartitionReassignments` // key 46
//!
//! There are never any, because replicas exist only in metadata.

use thalweg_protocol::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

use crate::requests::context::Context;
use crate::requests::subject::Subject;

impl Subject for ListPartitionReassignmentsRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    _: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let code = context.refusal().unwrap_or_default();
    ListPartitionReassignmentsResponse {
        error_code: code.0,
        ..Default::default()
    }
}
