//! [`Completion`]: what Rust adds to the coordinator's responses, because only it knows nodes and
//! rights.

use bytes::Bytes;
use thalweg_protocol::messages::{consumer_group_describe, describe_groups};
use thalweg_protocol::{DecodeError, EncodeError, ErrorCode, Message, Reader, Str};
use thalweg_security::acl::{Acls, Operation, ResourceType};

use crate::fetch::Reader as Client;
use crate::requests::authorization::allowed_of;
use crate::requests::operations;

/// For a description: the groups that this node does not coordinate, and the rights of the client.
#[derive(Debug)]
pub(crate) enum Completion {
    Nothing,
    Describe {
        refused: Vec<describe_groups::DescribedGroup>,
        rights: Rights,
    },
    ConsumerDescribe {
        refused: Vec<consumer_group_describe::DescribedGroup>,
        rights: Rights,
    },
}

/// The rights of a client that wants a description.
#[derive(Debug)]
pub(crate) struct Rights {
    pub(crate) client: Client,
    /// Whether the response contains the rights on each group.
    pub(crate) are_asked: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAResponse {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl Completion {
    pub(crate) fn apply(
        &self,
        body: Bytes,
        version: i16,
        acls: Option<&Acls>,
    ) -> Result<Bytes, NotAResponse> {
        match self {
            Self::Nothing => Ok(body),
            Self::Describe { refused, rights } => {
                let mut response = read::<describe_groups::DescribeGroupsResponse>(body, version)?;
                for group in &mut response.groups {
                    let is_known = group.error_code == 0;
                    group.authorized_operations = rights.on(acls, &group.group_id, is_known);
                }
                response.groups.extend(refused.iter().cloned());
                write(&response, version)
            }
            Self::ConsumerDescribe { refused, rights } => {
                let mut response =
                    read::<consumer_group_describe::ConsumerGroupDescribeResponse>(body, version)?;
                for group in &mut response.groups {
                    if !rights.allow_to_see(acls, group) {
                        *group = hidden(&group.group_id);
                    }
                    let is_known = group.error_code == 0;
                    group.authorized_operations = rights.on(acls, &group.group_id, is_known);
                }
                response.groups.extend(refused.iter().cloned());
                write(&response, version)
            }
        }
    }
}

impl Rights {
    fn on(&self, acls: Option<&Acls>, group: &str, is_known: bool) -> i32 {
        let all = operations::of_group(self.are_asked && is_known);
        allowed_of(acls, self.client.who(), all, (ResourceType::Group, group))
    }

    /// Whether the client may describe all topics that members have.
    fn allow_to_see(
        &self,
        acls: Option<&Acls>,
        group: &consumer_group_describe::DescribedGroup,
    ) -> bool {
        let Some(acls) = acls else { return true };
        let assignments = group
            .members
            .iter()
            .flat_map(|member| [&member.assignment, &member.target_assignment]);
        let mut topics = assignments.flat_map(|each| &each.topic_partitions);
        topics.all(|topic| {
            let (kind, name) = (ResourceType::Topic, &topic.topic_name);
            acls.allows(self.client.who(), Operation::Describe, kind, name)
        })
    }
}

/// Describes nothing of a group whose members have topics that the client may not see.
fn hidden(group: &Str) -> consumer_group_describe::DescribedGroup {
    let words = "The group has described topic(s) that the client is not authorized to describe.";
    consumer_group_describe::DescribedGroup {
        error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED.0,
        error_message: Some(Str::from_static(words)),
        group_id: group.clone(),
        ..consumer_group_describe::DescribedGroup::default()
    }
}

pub(super) fn read<M: Message>(body: Bytes, version: i16) -> Result<M, NotAResponse> {
    let mut input = Reader::new(body);
    let message = M::decode(&mut input, version)?;
    input.finish()?;
    Ok(message)
}

pub(crate) fn write<M: Message>(message: &M, version: i16) -> Result<Bytes, NotAResponse> {
    let mut body = Vec::new();
    message.encode(&mut body, version)?;
    Ok(body.into())
}
