//! `ListGroups` // key 16
//!
//! Lists the groups that this node coordinates: those that their coordinator published, and those
//! that have only offsets and no members.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_protocol::Str;
use thalweg_protocol::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};
use thalweg_security::acl::Operation;

use crate::groups::GroupKind;
use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::topology::coordinator::CoordinatorKind;

impl Subject for ListGroupsRequest {}

pub(crate) fn handle(context: &mut Context<'_>, request: ListGroupsRequest) -> ListGroupsResponse {
    if let Some(code) = context.refusal() {
        return ListGroupsResponse {
            error_code: code.0,
            ..ListGroupsResponse::default()
        };
    }
    let states = Filter::new(&request.states_filter);
    let types = Filter::new(&request.types_filter);
    let sees_all = context.allows_on_cluster(Operation::Describe);
    let is_wanted = |group: &ListedGroup| {
        (sees_all || context.denied_group(&group.group_id).is_none())
            && states.passes(&group.group_state)
            && types.passes(&group.group_type)
            && context.coordinates(CoordinatorKind::Group, &group.group_id)
    };
    let groups = all(context).into_values();
    ListGroupsResponse {
        groups: groups.filter(is_wanted).collect(),
        ..ListGroupsResponse::default()
    }
}

fn all<'a>(context: &'a Context<'_>) -> BTreeMap<&'a Str, ListedGroup> {
    let of_offsets = context.core.offsets.groups().map(|id| {
        let group = ListedGroup {
            group_id: id.clone(),
            group_state: "Empty".into(),
            group_type: GroupKind::Classic.name().into(),
            ..ListedGroup::default()
        };
        (id, group)
    });
    let published = context.core.groups.table.iter().map(|(id, view)| {
        let group = ListedGroup {
            group_id: id.clone(),
            protocol_type: view.protocol_type.clone(),
            group_state: view.state.clone(),
            group_type: view.kind.name().into(),
        };
        (id, group)
    });
    of_offsets.chain(published).collect()
}

/// A filter of words, ignoring case. An empty one lets everything pass.
struct Filter(BTreeSet<String>);

impl Filter {
    fn new(words: &[Str]) -> Self {
        Self(words.iter().map(|word| word.to_ascii_lowercase()).collect())
    }

    fn passes(&self, word: &str) -> bool {
        self.0.is_empty() || self.0.contains(&word.to_ascii_lowercase())
    }
}
