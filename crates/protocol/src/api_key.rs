//! [`ApiKey`]: the number of an API, which says which request a frame carries.

use std::fmt;
use std::ops::RangeInclusive;

use crate::dynamic;

/// The number of an API. The constants have the names of Kafka's `ApiKeys`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKey(pub i16);

impl ApiKey {
    /// Returns Kafka's name of the API (`Fetch`), or `Unknown`.
    pub fn name(self) -> &'static str {
        dynamic::schema(self).map_or("Unknown", |api| api.name)
    }

    /// Returns the API with Kafka's name (`Fetch`).
    pub fn from_name(name: &str) -> Option<Self> {
        dynamic::schemas()
            .iter()
            .find(|api| api.name == name)
            .map(|api| api.key)
    }

    /// Returns the stable versions that Kafka 4.3 knows.
    pub fn valid_versions(self) -> Option<RangeInclusive<i16>> {
        dynamic::schema(self).map(dynamic::ApiSchema::versions)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match dynamic::schema(*self) {
            Some(api) => f.write_str(api.name),
            None => write!(f, "API key {}", self.0),
        }
    }
}
