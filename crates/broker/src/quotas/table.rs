//! [`QuotaTable`]: the quotas that are set, and which one applies (KIP-546).

use std::collections::BTreeMap;

use thalweg_protocol::Str;

use super::{Payer, QuotaKind};

/// More are refused: a client with the permission to change quotas must not fill the memory.
pub(crate) const ENTITIES_MAX: usize = 10_000;

/// The name of a user, client ID or address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// All names without a quota of their own.
    Default,
    Of(Str),
}

impl Name {
    pub(crate) fn new(name: Option<Str>) -> Self {
        name.map_or(Self::Default, Self::Of)
    }

    /// Returns the name in the protocol. `None`: the default.
    pub(crate) fn wire(&self) -> Option<Str> {
        match self {
            Self::Default => None,
            Self::Of(name) => Some(name.clone()),
        }
    }
}

/// Who a quota is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entity {
    pub(crate) user: Option<Name>,
    pub(crate) client_id: Option<Name>,
    pub(crate) ip: Option<Name>,
}

/// The users and clients that share what a quota allows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level {
    user: Option<String>,
    client_id: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct QuotaTable {
    entities: BTreeMap<Entity, BTreeMap<&'static str, f64>>,
}

impl Entity {
    /// Returns the types and names, in Kafka's words.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&'static str, Option<Str>)> {
        let parts = [
            ("user", &self.user),
            ("client-id", &self.client_id),
            ("ip", &self.ip),
        ];
        let parts = parts.map(|(kind, name)| name.as_ref().map(|name| (kind, name.wire())));
        parts.into_iter().flatten()
    }

    /// Returns the name of a type. `None`: the entity does not have it.
    pub(crate) fn name_of(&self, kind: &str) -> Option<&Name> {
        match kind {
            "user" => self.user.as_ref(),
            "client-id" => self.client_id.as_ref(),
            _ => self.ip.as_ref(),
        }
    }
}

impl Level {
    /// Returns the level of all clients that are not measured individually.
    pub(super) fn of_others() -> Self {
        Self {
            user: None,
            client_id: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        let names = [&self.user, &self.client_id];
        names.into_iter().flatten().map(String::len).sum()
    }
}

impl QuotaTable {
    /// Sets quotas, or removes those without a value. False: there are too many entities.
    pub(crate) fn alter(
        &mut self,
        entity: &Entity,
        changes: &[(&'static str, Option<f64>)],
    ) -> bool {
        let is_new = !self.entities.contains_key(entity);
        if is_new && self.entities.len() >= ENTITIES_MAX {
            return false;
        }
        let quotas = self.entities.entry(entity.clone()).or_default();
        for (key, value) in changes {
            match value {
                Some(value) => quotas.insert(key, *value),
                None => quotas.remove(key),
            };
        }
        if quotas.is_empty() {
            self.entities.remove(entity);
        }
        true
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Entity, &BTreeMap<&'static str, f64>)> {
        self.entities.iter()
    }

    /// Returns the bound of the first level that has one, and who shares it.
    pub(super) fn limit(&self, kind: QuotaKind, payer: Payer<'_>) -> Option<(f64, Level)> {
        if self.entities.is_empty() {
            return None;
        }
        let user = || Some(Name::Of(payer.user.into()));
        let client = || Some(Name::Of(payer.client_id.into()));
        let default = || Some(Name::Default);
        // The order is that of Kafka's `ClientQuotaManager`.
        let levels = [
            (user(), client()),
            (user(), default()),
            (user(), None),
            (default(), client()),
            (default(), default()),
            (default(), None),
            (None, client()),
            (None, default()),
        ];
        levels.into_iter().find_map(|(user, client_id)| {
            let level = Level {
                user: user.is_some().then(|| payer.user.to_owned()),
                client_id: client_id.is_some().then(|| payer.client_id.to_owned()),
            };
            let entity = Entity {
                user,
                client_id,
                ip: None,
            };
            let bound = self.entities.get(&entity)?.get(kind.key())?;
            Some((*bound, level))
        })
    }

    pub(super) fn limit_of_ip(&self, ip: &str) -> Option<(f64, Level)> {
        if self.entities.is_empty() {
            return None;
        }
        [Name::Of(ip.into()), Name::Default]
            .into_iter()
            .find_map(|name| {
                let entity = Entity {
                    ip: Some(name),
                    ..Entity::default()
                };
                let bound = self
                    .entities
                    .get(&entity)?
                    .get(QuotaKind::Connection.key())?;
                let level = Level {
                    user: None,
                    client_id: Some(ip.to_owned()),
                };
                Some((*bound, level))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_eight_levels_counts() {
        let name = |name: &str| Some(Name::Of(name.into()));
        let default = || Some(Name::Default);
        let levels = [
            (name("u"), name("c")),
            (name("u"), default()),
            (name("u"), None),
            (default(), name("c")),
            (default(), default()),
            (default(), None),
            (None, name("c")),
            (None, default()),
        ];
        let payer = Payer {
            user: "u",
            client_id: "c",
        };
        let mut table = QuotaTable::default();
        let key = QuotaKind::Produce.key();
        // From the last to the first, each beats all before it.
        for (number, (user, client_id)) in levels.iter().enumerate().rev() {
            let entity = Entity {
                user: user.clone(),
                client_id: client_id.clone(),
                ip: None,
            };
            assert!(table.alter(&entity, &[(key, Some(number as f64))]));
            let (bound, level) = table.limit(QuotaKind::Produce, payer).expect("a quota");
            assert_eq!(bound as usize, number);
            assert_eq!(level.user.is_some(), user.is_some());
            assert_eq!(level.client_id.is_some(), client_id.is_some());
        }
        assert!(table.limit(QuotaKind::Fetch, payer).is_none());
        let stranger = Payer {
            user: "x",
            client_id: "y",
        };
        let (bound, _) = table
            .limit(QuotaKind::Produce, stranger)
            .expect("a default");
        assert_eq!(bound as usize, 4);
    }

    #[test]
    fn addresses_have_quotas_of_their_own() {
        let mut table = QuotaTable::default();
        let key = QuotaKind::Connection.key();
        let bound = |table: &QuotaTable, ip| table.limit_of_ip(ip).expect("a quota").0 as u32;
        let of = |name: Option<&str>| Entity {
            ip: Some(Name::new(name.map(Str::from))),
            ..Entity::default()
        };
        table.alter(&of(None), &[(key, Some(5.0))]);
        table.alter(&of(Some("127.0.0.1")), &[(key, Some(7.0))]);
        assert_eq!(bound(&table, "127.0.0.1"), 7);
        assert_eq!(bound(&table, "127.0.0.2"), 5);
        table.alter(&of(Some("127.0.0.1")), &[(key, None)]);
        assert_eq!(bound(&table, "127.0.0.1"), 5);
        assert_eq!(table.all().count(), 1);
    }
}
