//! Cuts chunks of any size into blocks of a fixed size, for codecs that work block by block.

/// Calls `each` with consecutive blocks of `block_bytes` (the last one may be shorter). A block
/// within one chunk is a slice of it. A block that spans chunks is copied into `scratch`.
pub(super) fn for_each_block(
    chunks: &[&[u8]],
    block_bytes: usize,
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]),
) {
    scratch.clear();
    for chunk in chunks {
        let mut rest = *chunk;
        if !scratch.is_empty() {
            let (head, tail) = rest.split_at(rest.len().min(block_bytes - scratch.len()));
            scratch.extend_from_slice(head);
            rest = tail;
            if scratch.len() < block_bytes {
                continue;
            }
            each(scratch);
            scratch.clear();
        }
        while let Some((block, tail)) = rest.split_at_checked(block_bytes) {
            each(block);
            rest = tail;
        }
        scratch.extend_from_slice(rest);
    }
    if !scratch.is_empty() {
        each(scratch);
    }
}
