//! Kafka's options by name: of the broker and of a topic, each one table.
//!
//! ```text
//! BrokerConfig.options --parse--> BrokerOptions --gives defaults to--> TopicOptions <-- a topic's own
//! ```
//! Options that only make sense with disks, other machines or rights are accepted and shown where
//! Kafka has them for a topic; they change nothing here, and the tables say so.

mod broker;
mod topic;
mod value;

pub(crate) use broker::TRANSACTION_VERSION_MAX;
pub use broker::{BROKER_OPTIONS, BrokerOptions, broker_option_names};
pub use topic::{CleanupPolicy, TOPIC_OPTIONS, TopicOption, TopicOptions};
pub(crate) use value::split_list;
pub use value::{Kind, OptionError};
