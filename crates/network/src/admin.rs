//! A client without a role, for admin work: it sends single requests of any API.

use thalweg_cluster::Idle;

use crate::client::{Client, ClientView, Parts};
use crate::config::ClientConfig;
use crate::error::ClientError;

/// An admin client. Its methods are those of [`ClientView`].
pub struct AdminClient {
    client: Client<Idle>,
}

impl AdminClient {
    /// Starts connecting in the background. [`ClientView::bootstrap`] waits for it.
    pub fn start(config: &ClientConfig) -> Result<Self, ClientError> {
        Ok(Self {
            client: Client::start(Parts::new(config)?, Idle)?,
        })
    }

    pub fn view(&self) -> &ClientView {
        self.client.view()
    }
}
