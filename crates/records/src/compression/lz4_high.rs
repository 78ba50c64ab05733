//! The slower lz4 block encoder with better compression, for the compression levels.
//!
//! All lz4 levels have the same format and differ only in how hard the encoder searches for
//! matches. Positions whose first four bytes have the same hash form a chain, newest first. A level
//! follows up to `2^(level-1)` links of the chain, as Java's `highCompressor` does. It delays a
//! match by one byte if the next position has a longer one.
//!
//! Why not liblz4, whose high-compression mode does the same: it is C, and about as fast. Its blocks
//! are 1 to 2% smaller from level 6 on, and 7 to 12% smaller at levels 1 to 3. benches/README.md has
//! the figures.
//!
//! ```text
//! sequence: token (literals << 4 | match - 4) | more literals length | literals | offset LE16
//!           | more match length;   the last sequence has literals only
//! ```

/// Maximum length of a block. A match reaches back at most 65535 bytes.
pub(super) const BLOCK_BYTES_MAX: usize = 64 << 10;

const HASH_BITS: u32 = 15;
const MATCH_LEN_MIN: usize = 4;
/// The format's rules: the last five bytes are literals, and no match starts in the last twelve.
const LAST_LITERALS: usize = 5;
const MATCH_START_LIMIT: usize = 12;

/// The chains of one block. The memory is reused for the next block.
pub(super) struct HighEncoder {
    /// By hash: the newest position plus one, or zero.
    heads: Vec<u32>,
    /// By position: the previous position in its chain plus one, or zero.
    chain: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Match {
    start: usize,
    len: usize,
}

impl HighEncoder {
    pub(super) fn new() -> Self {
        Self {
            heads: vec![0; 1 << HASH_BITS],
            chain: vec![0; BLOCK_BYTES_MAX],
        }
    }

    /// Appends the compressed block. `input` must not be longer than `BLOCK_BYTES_MAX`.
    pub(super) fn compress(&mut self, input: &[u8], level: i32, out: &mut Vec<u8>) {
        debug_assert!(
            input.len() <= BLOCK_BYTES_MAX,
            "the chain has an entry for each position of the block"
        );
        self.heads.fill(0);
        let links_max = 1_u32 << (level - 1).clamp(0, 16);
        let mut anchor = 0;
        let mut at = 0;
        while at + MATCH_START_LIMIT <= input.len() {
            let mut found = self.insert_and_find(input, at, links_max);
            if found.len < MATCH_LEN_MIN {
                at += 1;
                continue;
            }
            let mut inserted = at + 1;
            while at + 1 + MATCH_START_LIMIT <= input.len() {
                let next = self.insert_and_find(input, at + 1, links_max);
                inserted = at + 2;
                if next.len <= found.len {
                    break;
                }
                (found, at) = (next, at + 1);
            }
            let offset = (at - found.start) as u16;
            sequence(&input[anchor..at], Some((offset, found.len)), out);
            at += found.len;
            anchor = at;
            for position in inserted..at.min((input.len() + 1).saturating_sub(MATCH_START_LIMIT)) {
                self.insert(input, position);
            }
        }
        sequence(&input[anchor..], None, out);
    }

    /// Adds `at` as the newest position of its chain. Returns the previous one plus one, or zero.
    fn insert(&mut self, input: &[u8], at: usize) -> u32 {
        let four = input[at..]
            .first_chunk::<4>()
            .expect("at least twelve bytes are left");
        let hash = u32::from_le_bytes(*four).wrapping_mul(2_654_435_761) >> (32 - HASH_BITS);
        let before = std::mem::replace(&mut self.heads[hash as usize], at as u32 + 1);
        self.chain[at] = before;
        before
    }

    fn insert_and_find(&mut self, input: &[u8], at: usize, links_max: u32) -> Match {
        let mut best = Match::default();
        let mut link = self.insert(input, at);
        let end = input.len() - LAST_LITERALS;
        for _ in 0..links_max {
            let Some(start) = link.checked_sub(1) else {
                break;
            };
            let start = start as usize;
            // A longer match must match in the byte after the best one. Most candidates do not.
            if at + best.len < end && input[start + best.len] == input[at + best.len] {
                let len = common_prefix(&input[start..], &input[at..end]);
                if len > best.len {
                    best = Match { start, len };
                }
                if at + len == end {
                    break;
                }
            }
            link = self.chain[start];
        }
        best
    }
}

/// Returns the length of the common prefix. `earlier` must not be shorter than `here`.
fn common_prefix(earlier: &[u8], here: &[u8]) -> usize {
    let (a, _) = earlier[..here.len()].as_chunks::<8>();
    let (b, _) = here.as_chunks::<8>();
    for (index, (a, b)) in a.iter().zip(b).enumerate() {
        let different = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if different != 0 {
            return index * 8 + different.trailing_zeros() as usize / 8;
        }
    }
    let whole = b.len() * 8;
    let tail = earlier[whole..].iter().zip(&here[whole..]);
    whole + tail.take_while(|(a, b)| a == b).count()
}

fn sequence(literals: &[u8], matched: Option<(u16, usize)>, out: &mut Vec<u8>) {
    let rest = matched.map_or(0, |(_, len)| len - MATCH_LEN_MIN);
    out.push((literals.len().min(15) << 4 | rest.min(15)) as u8);
    more_length(literals.len(), out);
    out.extend_from_slice(literals);
    if let Some((offset, _)) = matched {
        out.extend_from_slice(&offset.to_le_bytes());
        more_length(rest, out);
    }
}

/// Writes the part of a length that does not fit into its half of the token.
fn more_length(len: usize, out: &mut Vec<u8>) {
    if let Some(mut left) = len.checked_sub(15) {
        while left >= 255 {
            out.push(255);
            left -= 255;
        }
        out.push(left as u8);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BLOCK_BYTES_MAX, HighEncoder};

    fn round_trip(encoder: &mut HighEncoder, input: &[u8], level: i32) -> usize {
        let mut packed = Vec::new();
        encoder.compress(input, level, &mut packed);
        let opened = lz4_flex::block::decompress(&packed, input.len()).expect("a sound block");
        assert_eq!(opened, input);
        packed.len()
    }

    #[test]
    fn the_shortest_and_the_longest_blocks_are_right() {
        let mut encoder = HighEncoder::new();
        let noise: Vec<u8> = (0..BLOCK_BYTES_MAX as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8)
            .collect();
        for len in (0..40).chain([270, 271, 65_000, BLOCK_BYTES_MAX]) {
            for level in [1, 8, 17] {
                round_trip(&mut encoder, &vec![7; len], level);
                round_trip(&mut encoder, &noise[..len], level);
            }
        }
        assert!(round_trip(&mut encoder, &vec![7; 60_000], 2) < 260);
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            words in prop::collection::vec(prop::collection::vec(0..3_u8, 1..9), 1..8),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..4000),
            level in 1..=17,
        ) {
            let input: Vec<u8> = picks.iter().flat_map(|pick| pick.get(&words)).copied().collect();
            let mut encoder = HighEncoder::new();
            round_trip(&mut encoder, &input, level);
            // The chains of an earlier block must have no effect.
            round_trip(&mut encoder, &input[input.len() / 2..], level);
        }
    }
}
