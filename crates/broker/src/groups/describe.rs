//! [`Completion`]: what Rust adds to the coordinator's answers, because only it knows nodes and
//! rights.

use bytes::Bytes;
use thalweg_protocol::messages::{consumer_group_describe, describe_groups};
use thalweg_protocol::{DecodeError, EncodeError, Message, Reader};

use crate::handlers::operations;

/// For a description: the groups that this node does not coordinate, and whether rights were
/// requested.
#[derive(Debug)]
pub(crate) enum Completion {
    Nothing,
    Describe {
        refused: Vec<describe_groups::DescribedGroup>,
        with_operations: bool,
    },
    ConsumerDescribe {
        refused: Vec<consumer_group_describe::DescribedGroup>,
        with_operations: bool,
    },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAnAnswer {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl Completion {
    pub(crate) fn apply(&self, body: Bytes, version: i16) -> Result<Bytes, NotAnAnswer> {
        match self {
            Self::Nothing => Ok(body),
            Self::Describe {
                refused,
                with_operations,
            } => {
                let mut answer = read::<describe_groups::DescribeGroupsResponse>(body, version)?;
                for group in &mut answer.groups {
                    let is_known = group.error_code == 0;
                    group.authorized_operations =
                        operations::of_group(*with_operations && is_known);
                }
                answer.groups.extend(refused.iter().cloned());
                write(&answer, version)
            }
            Self::ConsumerDescribe {
                refused,
                with_operations,
            } => {
                let mut answer =
                    read::<consumer_group_describe::ConsumerGroupDescribeResponse>(body, version)?;
                for group in &mut answer.groups {
                    let is_known = group.error_code == 0;
                    group.authorized_operations =
                        operations::of_group(*with_operations && is_known);
                }
                answer.groups.extend(refused.iter().cloned());
                write(&answer, version)
            }
        }
    }
}

pub(super) fn read<M: Message>(body: Bytes, version: i16) -> Result<M, NotAnAnswer> {
    let mut input = Reader::new(body);
    let message = M::decode(&mut input, version)?;
    input.finish()?;
    Ok(message)
}

pub(crate) fn write<M: Message>(message: &M, version: i16) -> Result<Bytes, NotAnAnswer> {
    let mut body = Vec::new();
    message.encode(&mut body, version)?;
    Ok(body.into())
}
