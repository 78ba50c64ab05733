//! A client without a role: single requests of any API, for admin work.

use std::time::Instant;

use thalweg_cluster::Idle;

use crate::client::{Client, ClientView, Parts};
use crate::config::ClientConfig;
use crate::error::ClientError;

/// See [`ClientView`] for what it can do.
pub struct AdminClient {
    client: Client<Idle>,
}

impl AdminClient {
    /// Starts connecting in the background; [`ClientView::wait_bootstrapped`] waits for it.
    pub fn start(config: &ClientConfig) -> Result<Self, ClientError> {
        Ok(Self {
            client: Client::start(Parts::new(config)?, Idle)?,
        })
    }

    pub fn view(&self) -> &ClientView {
        self.client.view()
    }

    pub fn close(
        &self,
        deadline: Instant,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), ClientError> {
        self.client.close(deadline, interrupted)
    }
}
