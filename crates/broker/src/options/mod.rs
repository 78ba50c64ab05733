//! Kafka's options by name, in one table for the broker and one for topics.
//!
//! ```text
//! BrokerConfig.options --parse--> BrokerOptions --gives defaults to--> TopicOptions <-- a topic's own
//! ```
//! Options that only make sense with disks, other machines or access rights are accepted and shown
//! where Kafka has them for a topic. They have no effect here, and the tables say so.

mod broker;
mod tokens;
mod topic;
mod value;

pub(crate) use broker::TRANSACTION_VERSION_MAX;
pub use broker::{BROKER_OPTIONS, BrokerOptions, ClientAuth, broker_option_names};
pub use tokens::TokenOptions;
pub use topic::{CleanupPolicy, TOPIC_OPTIONS, TopicOption, TopicOptions};
pub(crate) use value::split_list;
pub use value::{Kind, OptionError};
