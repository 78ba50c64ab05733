//! [`ErrorCode`]: an error code of Kafka, with its properties from Kafka's own table of errors.

use std::fmt;

use crate::generated::errors::ERRORS;

/// An error code in a response. The constants have the names of Kafka's `Errors`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ErrorCode(pub i16);

/// A row of the table.
#[derive(Debug)]
pub(crate) struct ErrorRow {
    pub(crate) code: i16,
    pub(crate) name: &'static str,
    /// The simple name of Java's exception class.
    pub(crate) exception: &'static str,
    pub(crate) families: &'static [Family],
    pub(crate) message: &'static str,
}

/// The families of exceptions in Java (KIP-1050 and older ones).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Retriable,
    InvalidMetadata,
    Refresh,
    ApplicationRecoverable,
    InvalidConfiguration,
}

impl ErrorCode {
    fn row(self) -> Option<&'static ErrorRow> {
        // The table starts at -1 and has no gaps, which a test checks.
        ERRORS.get(usize::try_from(i32::from(self.0) + 1).ok()?)
    }

    fn is_in(self, family: Family) -> bool {
        self.row().is_some_and(|row| row.families.contains(&family))
    }

    /// Returns every code of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        ERRORS.iter().map(|row| Self(row.code))
    }

    pub fn from_name(name: &str) -> Option<Self> {
        ERRORS
            .iter()
            .find(|row| row.name == name)
            .map(|row| Self(row.code))
    }

    pub fn is_known(self) -> bool {
        self.row().is_some()
    }

    /// Returns the name, as `NOT_LEADER_OR_FOLLOWER`, or `UNKNOWN` for a code that Kafka 4.3 does
    /// not have.
    pub fn name(self) -> &'static str {
        self.row().map_or("UNKNOWN", |row| row.name)
    }

    /// Returns the simple name of Java's exception class, empty for `NONE` and unknown codes.
    pub fn exception_name(self) -> &'static str {
        self.row().map_or("", |row| row.exception)
    }

    pub fn message(self) -> &'static str {
        self.row().map_or(
            "The server returned an error code that this client does not know.",
            |row| row.message,
        )
    }

    pub fn is_ok(self) -> bool {
        self == Self::NONE
    }

    pub fn is_error(self) -> bool {
        self != Self::NONE
    }

    /// Returns whether the same request may succeed later.
    pub fn is_retriable(self) -> bool {
        self.is_in(Family::Retriable)
    }

    /// Returns whether the client's metadata may be stale (Java's `InvalidMetadataException`).
    pub fn is_invalid_metadata(self) -> bool {
        self.is_in(Family::InvalidMetadata)
    }

    /// Returns whether metadata or the coordinator must be looked up again before a retry
    /// (`RefreshRetriableException`).
    pub fn needs_refresh(self) -> bool {
        self.is_in(Family::Refresh)
    }

    /// Returns whether a transactional application must restart its producer to recover
    /// (`ApplicationRecoverableException`).
    pub fn is_application_recoverable(self) -> bool {
        self.is_in(Family::ApplicationRecoverable)
    }

    /// Returns whether an administrator must change a configuration first
    /// (`InvalidConfigurationException`).
    pub fn is_invalid_configuration(self) -> bool {
        self.is_in(Family::InvalidConfiguration)
    }
}

impl From<i16> for ErrorCode {
    fn from(code: i16) -> Self {
        Self(code)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_known() {
            f.write_str(self.name())
        } else {
            write!(f, "error code {}", self.0)
        }
    }
}
