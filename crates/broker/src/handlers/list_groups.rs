//! `ListGroups` // key 16
//!
//! The groups that this node coordinates: without members, so `Empty`.

use thalweg_protocol::Str;
use thalweg_protocol::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};

use crate::context::Context;
use crate::coordinator::CoordinatorKind;
use crate::subject::Subject;

const STATE: &str = "Empty";
const TYPE: &str = "classic";

impl Subject for ListGroupsRequest {}

pub(crate) fn handle(context: &mut Context<'_>, request: ListGroupsRequest) -> ListGroupsResponse {
    if let Some(code) = context.injected() {
        return ListGroupsResponse {
            error_code: code.0,
            ..ListGroupsResponse::default()
        };
    }
    let wanted = passes(&request.states_filter, STATE) && passes(&request.types_filter, TYPE);
    let groups = context
        .core
        .offsets
        .groups()
        .filter(|group| wanted && context.coordinates(CoordinatorKind::Group, group));
    let groups = groups.map(|group| ListedGroup {
        group_id: group.clone(),
        group_state: STATE.into(),
        group_type: TYPE.into(),
        ..ListedGroup::default()
    });
    ListGroupsResponse {
        groups: groups.collect(),
        ..ListGroupsResponse::default()
    }
}

/// An empty filter lets all pass.
fn passes(filter: &[Str], word: &str) -> bool {
    filter.is_empty()
        || filter
            .iter()
            .any(|wanted| wanted.eq_ignore_ascii_case(word))
}
