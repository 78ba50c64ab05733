//! Which topics a request is about, so that a fault can apply to only one of them.

use thalweg_protocol::{Str, Uuid};

use crate::Core;

/// Implemented next to each handler.
pub(crate) trait Subject {
    /// Returns the names of the topics. Ids are resolved.
    fn topics(&self, _core: &Core) -> Vec<Str> {
        Vec::new()
    }
}

/// Returns the name of a request's topic: the given name, or the name of the topic with the given
/// id.
pub(crate) fn topic_name(core: &Core, name: &Str, id: Uuid) -> Option<Str> {
    if id.is_zero() {
        return Some(name.clone());
    }
    core.topology
        .topic_by_id(id)
        .map(|topic| topic.name.clone())
}
