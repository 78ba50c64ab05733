//! Which topics a request is about, so that a fault may be for one of them only.

use thalweg_protocol::{Str, Uuid};

use crate::Core;

/// Implemented beside each handler.
pub(crate) trait Subject {
    /// Names of topics; ids are looked up.
    fn topics(&self, _core: &Core) -> Vec<Str> {
        Vec::new()
    }
}

/// The name that a request means: its own, or that of the id.
pub(crate) fn topic_name(core: &Core, name: &Str, id: Uuid) -> Option<Str> {
    if id.is_zero() {
        return Some(name.clone());
    }
    core.topology
        .topic_by_id(id)
        .map(|topic| topic.name.clone())
}
