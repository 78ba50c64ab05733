//! [`Refusal`]: why a batch is not appended, and which of its records are at fault.

use thalweg_protocol::ErrorCode;

/// Refused records that an answer names. It says how many there are in all.
const RECORD_ERRORS_MAX: usize = 100;

/// Why a batch is not appended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    /// Records that are at fault, by their place in the batch (KIP-467).
    pub(crate) records: Vec<(i32, String)>,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            records: Vec::new(),
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_RECORD, message)
    }
}

/// Records that are at fault: the first ones by name, all others only counted.
#[derive(Default)]
pub(super) struct RefusedRecords {
    count: usize,
    named: Vec<(i32, String)>,
}

impl RefusedRecords {
    pub(super) fn add(&mut self, index: i32, why: impl FnOnce() -> String) {
        self.count += 1;
        if self.named.len() < RECORD_ERRORS_MAX {
            self.named.push((index, why()));
        }
    }

    pub(super) fn refuse(self, code: ErrorCode) -> Result<(), Refusal> {
        if self.count == 0 {
            return Ok(());
        }
        let message = match code {
            ErrorCode::INVALID_TIMESTAMP => {
                "One or more records have been rejected due to invalid timestamp"
            }
            _ => "One or more records have been rejected",
        };
        Err(Refusal {
            code,
            message: format!("{message}: {} in all", self.count),
            records: self.named,
        })
    }
}
