//! The broker's options, and the defaults that they give to topics.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_security::acl::Acls;
use thalweg_security::oauthbearer::jwks::Expected;

use super::tokens::{TOKEN_KEY, TokenOptions};
use super::topic::{TOPIC_OPTIONS, TopicOption, TopicOptions};
use super::value::{Kind, OptionError, split_list};
use crate::BrokerError;

/// The highest `transaction.version` that exists (KIP-890).
pub(crate) const TRANSACTION_VERSION_MAX: i16 = 2;

/// Kafka's own authorizer, and the only one that this broker has.
pub(crate) const STANDARD_AUTHORIZER: &str =
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// Name, kind and default of the options of the broker itself. Options that set a topic's default
/// (`log.retention.ms`, `message.max.bytes`, ...) are in [`TOPIC_OPTIONS`].
#[rustfmt::skip]
pub const BROKER_OPTIONS: &[(&str, Kind, &str)] = &[
    ("allow.everyone.if.no.acl.found", Kind::Bool, "false"),
    ("authorizer.class.name", Kind::Word(&["", STANDARD_AUTHORIZER]), ""),
    ("auto.create.topics.enable", Kind::Bool, "true"),
    ("connection.failed.authentication.delay.ms", Kind::INT, "100"),
    ("connections.max.idle.ms", Kind::LONG, "600000"),
    ("connections.max.reauth.ms", Kind::LONG, "0"),
    ("default.replication.factor", Kind::Int { min: 1, max: i16::MAX as i64 }, "1"),
    ("delegation.token.expiry.check.interval.ms", Kind::Long { min: 1 }, "3600000"),
    ("delegation.token.expiry.time.ms", Kind::Long { min: 1 }, "86400000"),
    ("delegation.token.max.lifetime.ms", Kind::Long { min: 1 }, "604800000"),
    (TOKEN_KEY, Kind::Password, ""),
    ("delete.topic.enable", Kind::Bool, "true"),
    ("fetch.max.bytes", Kind::Int { min: 1024, max: i32::MAX as i64 }, "57671680"),
    ("group.consumer.assignment.interval.ms", Kind::INT, "1000"),
    ("group.consumer.assignors", Kind::List, "uniform,range"),
    ("group.consumer.heartbeat.interval.ms", Kind::Int { min: 1, max: i32::MAX as i64 }, "5000"),
    ("group.consumer.max.assignment.interval.ms", Kind::INT, "15000"),
    ("group.consumer.max.heartbeat.interval.ms", Kind::Int { min: 1, max: i32::MAX as i64 }, "15000"),
    ("group.consumer.max.session.timeout.ms", Kind::Int { min: 1, max: i32::MAX as i64 }, "60000"),
    ("group.consumer.max.size", Kind::Int { min: 1, max: i32::MAX as i64 }, "2147483647"),
    ("group.consumer.min.assignment.interval.ms", Kind::INT, "0"),
    ("group.consumer.min.heartbeat.interval.ms", Kind::Int { min: 1, max: i32::MAX as i64 }, "5000"),
    ("group.consumer.min.session.timeout.ms", Kind::Int { min: 1, max: i32::MAX as i64 }, "45000"),
    ("group.consumer.session.timeout.ms", Kind::Int { min: 1, max: i32::MAX as i64 }, "45000"),
    // As in the server.properties that comes with Kafka: a new group does not wait for more
    // members.
    ("group.initial.rebalance.delay.ms", Kind::INT, "0"),
    ("group.max.session.timeout.ms", Kind::INT, "1800000"),
    ("group.max.size", Kind::Int { min: 1, max: i32::MAX as i64 }, "2147483647"),
    ("group.min.session.timeout.ms", Kind::INT, "6000"),
    ("log.retention.check.interval.ms", Kind::Long { min: 1 }, "300000"),
    ("log.retention.hours", Kind::Int { min: i32::MIN as i64, max: i32::MAX as i64 }, "168"),
    ("log.retention.minutes", Kind::Int { min: i32::MIN as i64, max: i32::MAX as i64 }, ""),
    ("log.roll.hours", Kind::Int { min: 1, max: i32::MAX as i64 }, "168"),
    ("max.incremental.fetch.session.cache.slots", Kind::INT, "1000"),
    ("num.partitions", Kind::Int { min: 1, max: i32::MAX as i64 }, "1"),
    ("offset.metadata.max.bytes", Kind::INT, "4096"),
    ("offsets.retention.check.interval.ms", Kind::Long { min: 1 }, "600000"),
    ("offsets.retention.minutes", Kind::Int { min: 1, max: i32::MAX as i64 }, "10080"),
    ("offsets.topic.num.partitions", Kind::Int { min: 1, max: i32::MAX as i64 }, "50"),
    ("offsets.topic.replication.factor", Kind::Int { min: 1, max: i16::MAX as i64 }, "3"),
    ("producer.id.expiration.ms", Kind::Int { min: 1, max: i32::MAX as i64 }, "86400000"),
    ("sasl.oauthbearer.clock.skew.seconds", Kind::INT, "30"),
    ("sasl.oauthbearer.expected.audience", Kind::List, ""),
    ("sasl.oauthbearer.expected.issuer", Kind::Text, ""),
    ("sasl.server.max.receive.size", Kind::INT, "524288"),
    ("socket.request.max.bytes", Kind::Int { min: 1, max: i32::MAX as i64 }, "104857600"),
    ("ssl.client.auth", Kind::Word(&["none", "requested", "required"]), "none"),
    // Users, as `User:a;User:b`.
    ("super.users", Kind::Text, ""),
    // Ours: the time for a client to log in. Kafka has only the limit on idle connections.
    ("thalweg.authentication.timeout.ms", Kind::Int { min: 1, max: i32::MAX as i64 }, "10000"),
    // Ours: the limit on the size of all records in memory together. 0 means no limit.
    ("thalweg.memory.max.bytes", Kind::LONG, "4294967296"),
    // Ours: the maximum number of connections of a node whose clients have not logged in.
    ("thalweg.unauthenticated.connections.max", Kind::Int { min: 1, max: 1_000_000 }, "1024"),
    // Ours: a feature that Kafka keeps in its metadata. 2: each transaction has its own epoch
    // (KIP-890).
    ("thalweg.transaction.version", Kind::Int { min: 0, max: TRANSACTION_VERSION_MAX as i64 }, "2"),
    ("transaction.max.timeout.ms", Kind::Int { min: 1, max: i32::MAX as i64 }, "900000"),
    ("transaction.state.log.min.isr", Kind::Int { min: 1, max: i32::MAX as i64 }, "2"),
    ("transaction.state.log.num.partitions", Kind::Int { min: 1, max: i32::MAX as i64 }, "50"),
    ("transaction.state.log.replication.factor", Kind::Int { min: 1, max: i16::MAX as i64 }, "3"),
    ("transactional.id.expiration.ms", Kind::Int { min: 1, max: i32::MAX as i64 }, "604800000"),
];

/// The broker's options, checked and parsed.
#[derive(Debug, Clone)]
pub struct BrokerOptions {
    pub auto_create_topics_enable: bool,
    /// The time for a client to log in.
    pub authentication_timeout: Duration,
    pub connections_max_idle_ms: u64,
    /// The longest session of a client that has logged in. 0: no limit.
    pub connections_max_reauth_ms: u64,
    /// How often members of the consumer protocol (KIP-848) should send heartbeats.
    pub consumer_heartbeat_interval_ms: i32,
    pub default_replication_factor: i16,
    pub delete_topic_enable: bool,
    /// How long a refused client waits for its response.
    pub failed_authentication_delay: Duration,
    pub fetch_max_bytes: i32,
    pub fetch_session_slots_max: usize,
    /// The limit on the size of all records in memory together.
    pub memory_bytes_max: Option<u64>,
    pub num_partitions: i32,
    pub offset_metadata_bytes_max: usize,
    pub offsets_partitions: i32,
    pub offsets_retention_check_interval_ms: u64,
    pub offsets_retention_ms: i64,
    pub producer_id_expiration_ms: i64,
    pub request_bytes_max: usize,
    pub retention_check_interval_ms: u64,
    /// The largest request of a client that has not logged in.
    pub sasl_request_bytes_max: usize,
    /// `ssl.client.auth`: whether clients must have certificates.
    pub ssl_client_auth: ClientAuth,
    pub tokens: TokenOptions,
    pub transaction_max_timeout_ms: i32,
    /// The number of partitions that `__transaction_state` would have. It decides which node
    /// coordinates.
    pub transaction_partitions: i32,
    /// The finalized feature `transaction.version`.
    pub transaction_version: i16,
    pub transactional_id_expiration_ms: i64,
    /// The limit on connections of a node whose clients have not logged in.
    pub unauthenticated_connections_max: usize,
    /// The options as given. All others have their defaults.
    given: BTreeMap<String, String>,
}

impl BrokerOptions {
    pub fn parse(given: &BTreeMap<String, String>) -> Result<Self, BrokerError> {
        let mut texts: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, _, default) in BROKER_OPTIONS {
            texts.insert(name, default);
        }
        for (name, text) in given {
            check(name, text)?;
            texts.insert(name, text);
        }
        let number =
            |name: &str| -> i64 { texts[name].parse().expect("the option's kind was checked") };
        within_limits(&number)?;
        let ms = |name: &str| Duration::from_millis(number(name) as u64);
        let memory = number("thalweg.memory.max.bytes") as u64;
        let mut options = Self {
            auto_create_topics_enable: is_true(texts["auto.create.topics.enable"]),
            authentication_timeout: ms("thalweg.authentication.timeout.ms"),
            connections_max_reauth_ms: number("connections.max.reauth.ms") as u64,
            failed_authentication_delay: ms("connection.failed.authentication.delay.ms"),
            sasl_request_bytes_max: number("sasl.server.max.receive.size") as usize,
            unauthenticated_connections_max: number("thalweg.unauthenticated.connections.max")
                as usize,
            connections_max_idle_ms: number("connections.max.idle.ms") as u64,
            consumer_heartbeat_interval_ms: number("group.consumer.heartbeat.interval.ms") as i32,
            default_replication_factor: number("default.replication.factor") as i16,
            delete_topic_enable: is_true(texts["delete.topic.enable"]),
            fetch_max_bytes: number("fetch.max.bytes") as i32,
            fetch_session_slots_max: number("max.incremental.fetch.session.cache.slots") as usize,
            memory_bytes_max: (memory > 0).then_some(memory),
            num_partitions: number("num.partitions") as i32,
            offset_metadata_bytes_max: number("offset.metadata.max.bytes") as usize,
            offsets_partitions: number("offsets.topic.num.partitions") as i32,
            offsets_retention_check_interval_ms: number("offsets.retention.check.interval.ms")
                as u64,
            offsets_retention_ms: number("offsets.retention.minutes") * 60_000,
            producer_id_expiration_ms: number("producer.id.expiration.ms"),
            request_bytes_max: number("socket.request.max.bytes") as usize,
            retention_check_interval_ms: number("log.retention.check.interval.ms") as u64,
            ssl_client_auth: ClientAuth::from_name(texts["ssl.client.auth"]),
            tokens: TokenOptions::new(texts[TOKEN_KEY], &number),
            transaction_max_timeout_ms: number("transaction.max.timeout.ms") as i32,
            transaction_partitions: number("transaction.state.log.num.partitions") as i32,
            transaction_version: number("thalweg.transaction.version") as i16,
            transactional_id_expiration_ms: number("transactional.id.expiration.ms"),
            given: given.clone(),
        };
        if let Some(key) = options.given.get_mut(TOKEN_KEY) {
            "[hidden]".clone_into(key);
        }
        options.settle_times();
        options
            .topic_options(&BTreeMap::new())
            .map_err(|error| config_error(&error))?;
        Ok(options)
    }

    /// Applies the coarser units of retention and roll time. If several are given, the finest
    /// counts.
    fn settle_times(&mut self) {
        let units = [
            ("log.retention.ms", "log.retention.minutes", 60_000_i64),
            ("log.retention.ms", "log.retention.hours", 3_600_000),
            ("log.roll.ms", "log.roll.hours", 3_600_000),
        ];
        for (fine, coarse, ms) in units {
            if self.given.contains_key(fine) {
                continue;
            }
            if let Some(n) = self
                .given
                .get(coarse)
                .and_then(|text| text.parse::<i64>().ok())
            {
                let value = if n < 0 { -1 } else { n.saturating_mul(ms) };
                self.given.insert(fine.to_owned(), value.to_string());
            }
        }
    }

    /// Returns a broker option's text as given at the start.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str)
    }

    /// Returns what the claims of signed tokens must be.
    pub(crate) fn expected_claims(&self) -> Expected {
        let given = |name| self.given(name).filter(|text| !text.is_empty());
        let audiences = given("sasl.oauthbearer.expected.audience").unwrap_or_default();
        let skew = given("sasl.oauthbearer.clock.skew.seconds").unwrap_or("30");
        Expected {
            audiences: split_list(audiences).map(str::to_owned).collect(),
            issuer: given("sasl.oauthbearer.expected.issuer").map(str::to_owned),
            skew_ms: skew.parse::<i64>().unwrap_or(30) * 1000,
        }
    }

    /// Returns the ACLs of a new broker, or `None` without an authorizer.
    pub(crate) fn acls(&self) -> Option<Acls> {
        self.given("authorizer.class.name")
            .filter(|name| !name.is_empty())?;
        let super_users = self.given("super.users").unwrap_or_default().split(';');
        let super_users = super_users.map(str::trim).filter(|user| !user.is_empty());
        let for_everyone = self.given("allow.everyone.if.no.acl.found");
        Some(Acls::new(
            super_users.map(str::to_owned).collect(),
            for_everyone.is_some_and(is_true),
        ))
    }

    /// Returns all group options as text, for the group coordinator.
    pub(crate) fn of_groups(&self) -> BTreeMap<&'static str, String> {
        let rows = BROKER_OPTIONS.iter();
        rows.filter(|(name, ..)| name.starts_with("group."))
            .map(|(name, _, default)| (*name, self.given(name).unwrap_or(default).to_owned()))
            .collect()
    }

    /// Returns the options of a topic that sets these itself.
    pub(crate) fn topic_options(
        &self,
        own: &BTreeMap<String, String>,
    ) -> Result<TopicOptions, OptionError> {
        TopicOptions::parse(&|option: &TopicOption| {
            own.get(option.name)
                .map(String::as_str)
                .or_else(|| self.given(option.broker_name))
        })
    }
}

/// Whether clients need certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    None,
    Requested,
    Required,
}

impl ClientAuth {
    /// Takes a word that the option accepts.
    fn from_name(name: &str) -> Self {
        match name {
            "required" => Self::Required,
            "requested" => Self::Requested,
            _ => Self::None,
        }
    }
}

/// Returns the names of all options that a broker accepts.
pub fn broker_option_names() -> impl Iterator<Item = &'static str> {
    let own = BROKER_OPTIONS.iter().map(|row| row.0);
    let of_topics = TOPIC_OPTIONS.iter().map(|option| option.broker_name);
    own.chain(of_topics).filter(|name| !name.is_empty())
}

fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

fn config_error(error: &OptionError) -> BrokerError {
    BrokerError::Config(error.to_string())
}

fn check(name: &str, text: &str) -> Result<(), BrokerError> {
    let own = BROKER_OPTIONS
        .iter()
        .find(|row| row.0 == name)
        .map(|row| row.1);
    let of_topics = TOPIC_OPTIONS
        .iter()
        .find(|option| option.broker_name == name);
    match own.or_else(|| of_topics.map(|option| option.kind)) {
        Some(kind) => kind.check(name, text).map_err(|error| config_error(&error)),
        None => Err(BrokerError::Config(format!(
            "Unknown broker configuration {name}"
        ))),
    }
}

/// Checks the options of KIP-848's groups that must lie between two others.
fn within_limits(number: &impl Fn(&str) -> i64) -> Result<(), BrokerError> {
    for each in [
        "assignment.interval.ms",
        "heartbeat.interval.ms",
        "session.timeout.ms",
    ] {
        let of_groups = |limit: &str| format!("group.consumer.{limit}{each}");
        let (own, min, max) = (of_groups(""), of_groups("min."), of_groups("max."));
        let value = number(&own);
        if !(number(&min)..=number(&max)).contains(&value) {
            return Err(BrokerError::Config(format!(
                "{own} ({value}) must be between {min} ({}) and {max} ({})",
                number(&min),
                number(&max)
            )));
        }
    }
    let (interval, session) = (
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.session.timeout.ms",
    );
    if number(interval) >= number(session) {
        return Err(BrokerError::Config(format!(
            "{interval} ({}) must be less than {session} ({})",
            number(interval),
            number(session)
        )));
    }
    Ok(())
}

impl Default for BrokerOptions {
    fn default() -> Self {
        Self::parse(&BTreeMap::new()).expect("the table's defaults are values of their kinds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<BrokerOptions, BrokerError> {
        let given = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        BrokerOptions::parse(&given)
    }

    #[test]
    fn what_has_limits_lies_between_them() {
        let session = ("group.consumer.session.timeout.ms", "1000");
        let error = parse(&[session]).expect_err("less than the least");
        assert_eq!(
            error.to_string(),
            "group.consumer.session.timeout.ms (1000) must be between \
             group.consumer.min.session.timeout.ms (45000) and \
             group.consumer.max.session.timeout.ms (60000)"
        );
        let least = ("group.consumer.min.session.timeout.ms", "1000");
        let error = parse(&[session, least]).expect_err("members would die between heartbeats");
        assert_eq!(
            error.to_string(),
            "group.consumer.heartbeat.interval.ms (5000) must be less than \
             group.consumer.session.timeout.ms (1000)"
        );
        let beats = ("group.consumer.heartbeat.interval.ms", "300");
        let often = ("group.consumer.min.heartbeat.interval.ms", "300");
        parse(&[session, least, beats, often]).expect("the least");
        parse(&[("group.consumer.assignment.interval.ms", "15001")]).expect_err("too much");
    }

    #[test]
    fn defaults_are_kafkas() {
        let options = BrokerOptions::default();
        assert!(options.auto_create_topics_enable);
        assert_eq!(options.num_partitions, 1);
        assert_eq!(options.request_bytes_max, 104_857_600);
    }

    #[test]
    fn an_unknown_or_bad_option_is_refused_by_name() {
        let unknown = parse(&[("log.retention.fortnights", "1")])
            .unwrap_err()
            .to_string();
        assert!(unknown.contains("log.retention.fortnights"), "{unknown}");
        let bad = parse(&[("num.partitions", "0")]).unwrap_err().to_string();
        assert!(
            bad.contains("num.partitions") && bad.contains("from 1"),
            "{bad}"
        );
    }

    #[test]
    fn the_finest_unit_of_retention_counts() {
        let ms = |pairs: &[(&str, &str)]| {
            parse(pairs)
                .unwrap()
                .topic_options(&BTreeMap::new())
                .unwrap()
                .retention_ms
        };
        assert_eq!(ms(&[("log.retention.hours", "1")]), 3_600_000);
        assert_eq!(
            ms(&[("log.retention.minutes", "1"), ("log.retention.hours", "9")]),
            60_000
        );
        assert_eq!(
            ms(&[("log.retention.ms", "5"), ("log.retention.minutes", "1")]),
            5
        );
        assert_eq!(ms(&[("log.retention.hours", "-1")]), -1);
    }

    #[test]
    fn options_of_groups_are_told_as_given_or_by_default() {
        let options = parse(&[("group.max.size", "7")]).unwrap().of_groups();
        assert_eq!(options["group.max.size"], "7");
        assert_eq!(options["group.consumer.session.timeout.ms"], "45000");
        assert!(!options.contains_key("num.partitions"));
    }

    #[test]
    fn a_topics_own_option_beats_the_brokers() {
        let options = parse(&[("message.max.bytes", "2000")]).unwrap();
        let own = BTreeMap::from([("max.message.bytes".to_owned(), "3000".to_owned())]);
        assert_eq!(
            options
                .topic_options(&BTreeMap::new())
                .unwrap()
                .max_message_bytes,
            2000
        );
        assert_eq!(options.topic_options(&own).unwrap().max_message_bytes, 3000);
    }
}
