//! The operations on a cluster, topic or group that are allowed without ACLs, as bits (KIP-430).

pub(crate) const NOT_ASKED: i32 = i32::MIN;
pub(crate) const CLUSTER: i32 = bits(&[5, 7, 8, 9, 10, 11, 12]);
pub(crate) const TOPIC: i32 = bits(&[3, 4, 5, 6, 7, 8, 10, 11]);
const GROUP: i32 = bits(&[3, 6, 8, 10, 11]);

pub(crate) fn of_group(are_asked: bool) -> i32 {
    if are_asked { GROUP } else { NOT_ASKED }
}

const fn bits(operations: &[u8]) -> i32 {
    let mut bits = 0;
    let mut index = 0;
    while index < operations.len() {
        bits |= 1 << operations[index];
        index += 1;
    }
    bits
}
