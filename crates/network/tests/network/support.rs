//! How tests wait for operations.

use std::future::poll_fn;
use std::task::Poll;

use thalweg_network::wait::Parker;
use thalweg_network::{ClientError, Operation};

/// Blocks this thread until the operation is over.
pub(crate) fn blocking<O: Operation>(mut operation: O) -> Result<O::Output, ClientError> {
    let parker = Parker::current();
    loop {
        if let Some(outcome) = operation.poll(parker.waker()) {
            return outcome;
        }
        parker.wait(operation.deadline());
    }
}

/// Waits in a task until the operation is over. No timer ends it at its deadline.
pub(crate) async fn finished<O: Operation>(mut operation: O) -> Result<O::Output, ClientError> {
    poll_fn(|cx| {
        operation
            .poll(cx.waker())
            .map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
