//! [`Refusal`]: why a batch is not appended, and which of its records are wrong.

use thalweg_protocol::ErrorCode;

/// The limit on refused records that a response lists. It also gives their total number.
const RECORD_ERRORS_MAX: usize = 100;

/// Why a batch is not appended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    /// Wrong records, by their index in the batch (KIP-467).
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

/// Collects wrong records: lists the first ones and only counts the others.
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
