//! [`Principal`]: whom brokers take a client for.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_protocol::{ApiKey, ErrorCode, rights};

/// The name of a client as ACLs have it, as far as the client knows it. Clones change together.
#[derive(Debug, Clone)]
pub struct Principal(Arc<Mutex<Arc<str>>>);

impl Default for Principal {
    fn default() -> Self {
        Self::new("User:ANONYMOUS")
    }
}

impl Principal {
    pub fn new(name: &str) -> Self {
        Self(Arc::new(Mutex::new(Arc::from(name))))
    }

    pub fn set(&self, name: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::from(name);
    }

    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds to the message of a refusal what to grant, if the refusal is about rights. `resource`
    /// names the topic, group or transactional ID.
    pub fn explained(&self, message: &str, api: ApiKey, code: ErrorCode, resource: &str) -> String {
        match rights::advice(&self.name(), api, code, resource) {
            Some(advice) => format!("{}. {advice}", message.trim_end_matches('.')),
            None => message.to_owned(),
        }
    }
}
