//! A topic's options: Kafka's names, kinds and defaults in one table.

use std::collections::BTreeMap;

use thalweg_records::TimestampType;

use super::value::{Kind, OptionError, split_list};

/// One row of the table.
#[derive(Debug)]
pub struct TopicOption {
    pub name: &'static str,
    /// The broker's option that gives the default.
    pub broker_name: &'static str,
    pub kind: Kind,
    pub default: &'static str,
    /// Whether the option has an effect on this broker, or is only stored and shown.
    pub honoured: bool,
}

const fn honoured(
    name: &'static str,
    broker_name: &'static str,
    kind: Kind,
    default: &'static str,
) -> TopicOption {
    TopicOption {
        name,
        broker_name,
        kind,
        default,
        honoured: true,
    }
}

const fn shown(
    name: &'static str,
    broker_name: &'static str,
    kind: Kind,
    default: &'static str,
) -> TopicOption {
    TopicOption {
        name,
        broker_name,
        kind,
        default,
        honoured: false,
    }
}

const FOREVER: &str = "9223372036854775807";
const UNBOUNDED: Kind = Kind::Long { min: -1 };
const CODECS: Kind = Kind::Word(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]);
const TIMESTAMP_TYPES: Kind = Kind::Word(&["CreateTime", "LogAppendTime"]);

/// Sorted by name, as Kafka shows them.
#[rustfmt::skip]
pub const TOPIC_OPTIONS: &[TopicOption] = &[
    honoured("cleanup.policy", "log.cleanup.policy", Kind::Words(&["compact", "delete"]), "delete"),
    honoured("compression.gzip.level", "compression.gzip.level", Kind::Int { min: -1, max: 9 }, "-1"),
    shown("compression.lz4.level", "compression.lz4.level", Kind::Int { min: 1, max: 17 }, "9"),
    honoured("compression.type", "compression.type", CODECS, "producer"),
    honoured("compression.zstd.level", "compression.zstd.level", Kind::Int { min: -131_072, max: 22 }, "3"),
    shown("delete.retention.ms", "log.cleaner.delete.retention.ms", Kind::LONG, "86400000"),
    shown("file.delete.delay.ms", "log.segment.delete.delay.ms", Kind::LONG, "60000"),
    shown("flush.messages", "log.flush.interval.messages", Kind::Long { min: 1 }, FOREVER),
    shown("flush.ms", "log.flush.interval.ms", Kind::LONG, FOREVER),
    shown("follower.replication.throttled.replicas", "follower.replication.throttled.replicas", Kind::List, ""),
    shown("index.interval.bytes", "log.index.interval.bytes", Kind::INT, "4096"),
    shown("leader.replication.throttled.replicas", "leader.replication.throttled.replicas", Kind::List, ""),
    shown("local.retention.bytes", "log.local.retention.bytes", Kind::Long { min: -2 }, "-2"),
    shown("local.retention.ms", "log.local.retention.ms", Kind::Long { min: -2 }, "-2"),
    shown("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", Kind::Long { min: 1 }, FOREVER),
    honoured("max.message.bytes", "message.max.bytes", Kind::INT, "1048588"),
    honoured("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", Kind::LONG, "3600000"),
    honoured("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", Kind::LONG, FOREVER),
    honoured("message.timestamp.type", "log.message.timestamp.type", TIMESTAMP_TYPES, "CreateTime"),
    shown("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", Kind::Double { min: 0.0, max: 1.0 }, "0.5"),
    shown("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", Kind::LONG, "0"),
    honoured("min.insync.replicas", "min.insync.replicas", Kind::Int { min: 1, max: i32::MAX as i64 }, "1"),
    shown("preallocate", "log.preallocate", Kind::Bool, "false"),
    shown("remote.log.copy.disable", "remote.log.copy.disable", Kind::Bool, "false"),
    shown("remote.log.delete.on.disable", "remote.log.delete.on.disable", Kind::Bool, "false"),
    shown("remote.storage.enable", "remote.storage.enable", Kind::Bool, "false"),
    honoured("retention.bytes", "log.retention.bytes", UNBOUNDED, "-1"),
    honoured("retention.ms", "log.retention.ms", UNBOUNDED, "604800000"),
    honoured("segment.bytes", "log.segment.bytes", Kind::Int { min: 1_048_576, max: i32::MAX as i64 }, "1073741824"),
    shown("segment.index.bytes", "log.index.size.max.bytes", Kind::Int { min: 4, max: i32::MAX as i64 }, "10485760"),
    shown("segment.jitter.ms", "log.roll.jitter.ms", Kind::LONG, "0"),
    honoured("segment.ms", "log.roll.ms", Kind::Long { min: 1 }, "604800000"),
    shown("unclean.leader.election.enable", "unclean.leader.election.enable", Kind::Bool, "false"),
];

impl TopicOption {
    pub fn find(name: &str) -> Option<&'static Self> {
        TOPIC_OPTIONS.iter().find(|option| option.name == name)
    }
}

/// What may happen to old records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupPolicy {
    pub delete: bool,
    pub compact: bool,
}

/// The options that have an effect on the broker, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicOptions {
    pub cleanup_policy: CleanupPolicy,
    /// A codec's name, `producer` or `uncompressed`.
    pub compression_type: String,
    pub compression_gzip_level: i32,
    pub compression_zstd_level: i32,
    pub max_message_bytes: i32,
    pub message_timestamp_after_max_ms: i64,
    pub message_timestamp_before_max_ms: i64,
    pub message_timestamp_type: TimestampType,
    pub min_insync_replicas: i32,
    /// -1 means no limit.
    pub retention_bytes: i64,
    /// -1 means for ever.
    pub retention_ms: i64,
    pub segment_bytes: i64,
    pub segment_ms: i64,
}

impl TopicOptions {
    /// Parses a topic's options. `lookup` returns the text of an option that is set.
    pub(crate) fn parse<'a>(
        lookup: &dyn Fn(&TopicOption) -> Option<&'a str>,
    ) -> Result<Self, OptionError> {
        let mut texts = BTreeMap::new();
        for option in TOPIC_OPTIONS {
            let text = lookup(option).unwrap_or(option.default);
            option.kind.check(option.name, text)?;
            texts.insert(option.name, text);
        }
        let text = |name| texts[name];
        // The kinds were checked above. A default that does not parse is a mistake in the table,
        // which the table's test finds.
        let long = |name| text(name).parse().expect("the option's kind was checked");
        let int = |name| text(name).parse().expect("the option's kind was checked");
        let policies: Vec<&str> = split_list(text("cleanup.policy")).collect();
        Ok(Self {
            cleanup_policy: CleanupPolicy {
                delete: policies.contains(&"delete"),
                compact: policies.contains(&"compact"),
            },
            compression_type: text("compression.type").to_owned(),
            compression_gzip_level: int("compression.gzip.level"),
            compression_zstd_level: int("compression.zstd.level"),
            max_message_bytes: int("max.message.bytes"),
            message_timestamp_after_max_ms: long("message.timestamp.after.max.ms"),
            message_timestamp_before_max_ms: long("message.timestamp.before.max.ms"),
            message_timestamp_type: match text("message.timestamp.type") {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            min_insync_replicas: int("min.insync.replicas"),
            retention_bytes: long("retention.bytes"),
            retention_ms: long("retention.ms"),
            segment_bytes: long("segment.bytes"),
            segment_ms: long("segment.ms"),
        })
    }
}

impl Default for TopicOptions {
    fn default() -> Self {
        Self::parse(&|_| None).expect("the table's defaults are values of their kinds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_kind_and_the_table_is_sorted() {
        let options = TopicOptions::default();
        assert_eq!(options.retention_ms, 7 * 24 * 3_600_000);
        assert_eq!(options.max_message_bytes, 1_048_588);
        assert!(options.cleanup_policy.delete && !options.cleanup_policy.compact);
        assert!(TOPIC_OPTIONS.is_sorted_by_key(|option| option.name));
    }

    #[test]
    fn a_bad_value_is_named_with_what_is_expected() {
        let bad = TopicOptions::parse(&|option| (option.name == "retention.ms").then_some("-2"));
        let message = bad.unwrap_err().to_string();
        assert!(
            message.contains("retention.ms") && message.contains("at least -1"),
            "{message}"
        );
        let policy = |text| {
            TopicOptions::parse(&move |option| (option.name == "cleanup.policy").then_some(text))
        };
        assert!(policy("compact, delete").unwrap().cleanup_policy.compact);
        assert!(policy("shred").is_err());
    }
}
