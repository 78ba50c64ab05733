//! A producer's calls on transactions, for both APIs. Each waits at most `max_block_ms`.

use std::task::Waker;
use std::time::Instant;

use pyo3::prelude::*;
use thalweg_network::TransactionCall;
use thalweg_producer::{GroupMetadata, GroupOffsets, OffsetToCommit, Timed};
use thalweg_protocol::Str;

use crate::convert::errors;
use crate::operation::{Operation, is_over};
use crate::producing::core::Core;

/// Topic, partition, offset, metadata, leader epoch.
pub(crate) type Offset = (String, i32, i64, String, i32);
/// Group ID, generation, member ID, instance ID.
pub(crate) type Group = (String, i32, String, Option<String>);

/// A call and its arguments.
pub(crate) enum Transacting {
    Init,
    Begin,
    SendOffsets(GroupMetadata, GroupOffsets),
    Commit,
    Abort,
    /// The call was polled once, and the sender has the request.
    Made(Made),
}

pub(crate) struct Made {
    call: TransactionCall,
    timed: Timed,
    began: Instant,
    deadline: Instant,
}

impl Transacting {
    pub(crate) fn send_offsets(offsets: Vec<Offset>, group: Group) -> Self {
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
        Self::SendOffsets(group, offsets.into_iter().map(offset).collect())
    }

    /// Passes the request to the sender, unless that was done.
    fn made(&mut self, core: &Core) -> &mut Made {
        let client = &core.client;
        let (call, timed) = match self {
            Self::Made(made) => return made,
            Self::Init => (client.init_transactions(), Timed::TxnInit),
            Self::Begin => (client.begin_transaction(), Timed::TxnBegin),
            Self::SendOffsets(group, offsets) => {
                let (group, offsets) = (group.clone(), std::mem::take(offsets));
                let call = client.send_offsets_to_transaction(group, offsets);
                (call, Timed::TxnSendOffsets)
            }
            Self::Commit => (client.commit_transaction(), Timed::TxnCommit),
            Self::Abort => (client.abort_transaction(), Timed::TxnAbort),
        };
        *self = Self::Made(Made {
            call,
            timed,
            began: Instant::now(),
            deadline: core.appender.budget(),
        });
        self.made(core)
    }
}

impl Operation for Transacting {
    type Output = ();

    fn poll(&mut self, py: Python<'_>, core: &Core, waker: &Waker) -> PyResult<Option<()>> {
        let made = self.made(core);
        let failed = match made.call.poll(waker) {
            Some(Ok(())) => {
                let metrics = core.appender.accumulator.metrics();
                metrics.took(made.timed, made.began.elapsed());
                return Ok(Some(()));
            }
            Some(Err(error)) => error,
            None if !is_over(Some(made.call.deadline(made.deadline))) => return Ok(None),
            None => {
                core.client.give_up(&made.call);
                made.call.timed_out()
            }
        };
        Err(errors::client(py, &failed))
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Made(made) => Some(made.call.deadline(made.deadline)),
            _ => None,
        }
    }

    fn given_up(&self, _: Python<'_>, core: &Core, _: &PyErr) {
        if let Self::Made(made) = self {
            core.client.give_up(&made.call);
        }
    }
}
