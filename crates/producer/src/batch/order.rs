//! [`Order`]: which batch of a partition is the older one.

/// The order of batches in a partition: by age, and pieces of a split batch by their first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    pub(crate) batch: u64,
    pub(crate) first_index: u32,
}

impl Order {
    /// The least order: no batch comes before it.
    pub(crate) const FIRST: Self = Self {
        batch: 0,
        first_index: 0,
    };
}
