//! The kinds of option values, and how text is checked against them.

use std::fmt;

/// Which values an option accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Bool,
    Int {
        min: i64,
        max: i64,
    },
    Long {
        min: i64,
    },
    Double {
        min: f64,
        max: f64,
    },
    /// Free text.
    Text,
    /// A secret text, which no response shows.
    Password,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Some of these words, separated by commas.
    Words(&'static [&'static str]),
    /// Any words, separated by commas.
    List,
}

impl Kind {
    pub(crate) const INT: Self = Self::Int {
        min: 0,
        max: i32::MAX as i64,
    };
    pub(crate) const LONG: Self = Self::Long { min: 0 };

    /// Returns the `ConfigType` for a `DescribeConfigs` response (KIP-569).
    pub(crate) fn wire_id(self) -> i8 {
        match self {
            Self::Bool => 1,
            Self::Text | Self::Word(_) => 2,
            Self::Int { .. } => 3,
            Self::Long { .. } => 5,
            Self::Double { .. } => 6,
            Self::Words(_) | Self::List => 7,
            Self::Password => 9,
        }
    }

    pub(crate) fn is_list(self) -> bool {
        matches!(self, Self::Words(_) | Self::List)
    }

    /// Checks that `text` is a value of this kind. The error names the accepted values.
    pub(crate) fn check(self, name: &str, text: &str) -> Result<(), OptionError> {
        let good = match self {
            Self::Bool => matches!(text.to_ascii_lowercase().as_str(), "true" | "false"),
            Self::Int { min, max } => text.parse().is_ok_and(|n: i64| (min..=max).contains(&n)),
            Self::Long { min } => text.parse().is_ok_and(|n: i64| n >= min),
            Self::Double { min, max } => text.parse().is_ok_and(|n: f64| (min..=max).contains(&n)),
            Self::Word(words) => words.contains(&text),
            Self::Words(words) => split_list(text).all(|word| words.contains(&word)),
            Self::Text | Self::Password | Self::List => true,
        };
        if good {
            return Ok(());
        }
        Err(OptionError {
            name: name.to_owned(),
            value: text.to_owned(),
            expected: self.to_string(),
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("true or false"),
            Self::Int { min, max } => write!(f, "an integer from {min} to {max}"),
            Self::Long { min } => write!(f, "an integer of at least {min}"),
            Self::Double { min, max } => write!(f, "a number from {min} to {max}"),
            Self::Word(words) => write!(f, "one of {}", words.join(", ")),
            Self::Words(words) => write!(f, "some of {}", words.join(", ")),
            Self::Text | Self::Password | Self::List => f.write_str("text"),
        }
    }
}

/// Splits the text of a list option into words.
pub(crate) fn split_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

/// A value that its option does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid value {value} for configuration {name}: expected {expected}")]
pub struct OptionError {
    pub name: String,
    pub value: String,
    pub expected: String,
}
