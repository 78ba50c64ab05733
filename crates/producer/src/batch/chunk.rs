//! A piece of the pool's memory, and a rope of such pieces that records are written into.
//!
//! ```text
//!   Rope:  [Chunk full][Chunk full]...[Chunk being filled][spare][spare]
//!             └──────── freeze ─────────┴──▶ Bytes, Bytes: the batch's segments
//! ```

use std::sync::Arc;

use bytes::Bytes;
use thalweg_records::RecordSink;

use crate::batch::buffer_pool::BufferPool;

/// Memory from the pool. It returns to the pool when it is dropped: as part of an open batch, or
/// with the last of the `Bytes` that share it.
#[derive(Debug)]
pub struct Chunk {
    /// Zeroed once, when it is allocated. A reused chunk still holds old bytes, which are
    /// overwritten.
    bytes: Box<[u8]>,
    written: usize,
    pool: Arc<BufferPool>,
}

impl Chunk {
    pub(crate) fn new(bytes: Box<[u8]>, pool: Arc<BufferPool>) -> Self {
        Self {
            bytes,
            written: 0,
            pool,
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of bytes that still fit.
    #[inline]
    fn room(&self) -> usize {
        self.bytes.len() - self.written
    }

    pub(crate) fn clear(&mut self) {
        self.written = 0;
    }

    /// Appends as many bytes as fit, and returns those that do not.
    #[inline]
    pub(crate) fn fill<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (now, later) = bytes.split_at(self.room().min(bytes.len()));
        self.bytes[self.written..self.written + now.len()].copy_from_slice(now);
        self.written += now.len();
        later
    }

    /// Turns the bytes into a segment. The chunk returns to the pool with the segment's last clone.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.written]
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.pool.release(std::mem::take(&mut self.bytes));
    }
}

/// The memory that the pool granted for one request: usually one chunk.
#[derive(Debug, Default)]
pub struct Reservation {
    first: Option<Chunk>,
    more: Vec<Chunk>,
}

impl Reservation {
    /// Returns the number of granted bytes.
    pub fn len(&self) -> usize {
        self.first.iter().chain(&self.more).map(Chunk::size).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl From<Chunk> for Reservation {
    fn from(chunk: Chunk) -> Self {
        Self {
            first: Some(chunk),
            more: Vec::new(),
        }
    }
}

impl FromIterator<Chunk> for Reservation {
    fn from_iter<I: IntoIterator<Item = Chunk>>(chunks: I) -> Self {
        let mut chunks = chunks.into_iter();
        Self {
            first: chunks.next(),
            more: chunks.collect(),
        }
    }
}

/// Chunks that are filled one after the other.
#[derive(Debug)]
pub(crate) struct Rope {
    full: Vec<Chunk>,
    current: Chunk,
    /// Chunks that are not written to yet, the next one last.
    spare: Vec<Chunk>,
    len: usize,
}

impl Rope {
    /// Creates a rope. `reservation` must not be empty.
    pub(crate) fn new(reservation: Reservation) -> Self {
        let current = reservation
            .first
            .expect("a batch opens with memory for its first record");
        let mut spare = reservation.more;
        spare.reverse();
        Self {
            full: Vec::new(),
            current,
            spare,
            len: 0,
        }
    }

    /// Returns the number of bytes written.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of bytes that fit into the chunk being filled.
    #[inline]
    pub(crate) fn room_in_chunk(&self) -> usize {
        self.current.room()
    }

    /// Adds memory so that `len` more bytes fit. Returns false if the pool has too little.
    ///
    /// It does not wait: a batch that waited while it holds chunks could wait for its own memory.
    pub(crate) fn grow(&mut self, pool: &Arc<BufferPool>, len: usize) -> bool {
        let mut room = self.current.room() + self.spare.iter().map(Chunk::size).sum::<usize>();
        let small = pool.small_chunk_bytes();
        while room < len {
            // A batch grows by small chunks until it holds more than a few records.
            let few = self.len < 4 * small && len - room <= small;
            let size = if few { small } else { pool.large_chunk_bytes() };
            let Some(chunk) = pool.try_chunk(size) else {
                self.spare.clear();
                return false;
            };
            room += size;
            self.spare.insert(0, chunk);
        }
        true
    }

    /// Returns the chunks that were written to. The others go back to the pool.
    pub(crate) fn into_chunks(self) -> Vec<Chunk> {
        let Self {
            mut full, current, ..
        } = self;
        full.push(current);
        full.retain(|chunk| chunk.written > 0);
        full
    }

    #[cold]
    fn next_chunk(&mut self) {
        let next = self
            .spare
            .pop()
            .expect("chunks for the record were reserved before it is written");
        self.full.push(std::mem::replace(&mut self.current, next));
    }
}

impl RecordSink for Rope {
    fn put(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        let mut rest = self.current.fill(bytes);
        while !rest.is_empty() {
            self.next_chunk();
            rest = self.current.fill(rest);
        }
    }

    #[inline]
    fn contiguous(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.current.room() < len {
            return None;
        }
        self.len += len;
        let start = self.current.written;
        self.current.written += len;
        Some(&mut self.current.bytes[start..start + len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rope_keeps_the_order_of_what_is_put() {
        let pool = BufferPool::new(64 * 1024, 2048, 0);
        let mut rope = Rope::new(pool.try_acquire_of(10, 0).expect("the pool is empty"));
        let data: Vec<u8> = (0..9000_u32).map(|n| n as u8).collect();
        for part in data.chunks(700) {
            assert!(rope.grow(&pool, part.len()));
            rope.put(part);
        }
        assert_eq!(rope.len(), data.len());
        let segments: Vec<Bytes> = rope.into_chunks().into_iter().map(Chunk::freeze).collect();
        assert_eq!(segments.concat(), data);
        assert!(pool.available_bytes() < 64 * 1024 - 9000);
        drop(segments);
        assert_eq!(pool.available_bytes(), 64 * 1024);
    }

    #[test]
    fn what_was_reserved_counts_before_more_is_taken() {
        let pool = BufferPool::new(8192, 1024, 0);
        let mut rope = Rope::new(pool.try_acquire_of(5000, 0).expect("the pool is empty"));
        let before = pool.available_bytes();
        assert!(rope.grow(&pool, 5000));
        assert_eq!(pool.available_bytes(), before);
        rope.put(&[1; 5000]);
        assert_eq!(rope.into_chunks().len(), 5);
    }

    #[test]
    fn growth_that_fails_takes_nothing() {
        let pool = BufferPool::new(4096, 2048, 0);
        let mut rope = Rope::new(pool.try_acquire_of(2048, 0).expect("the pool is empty"));
        let before = pool.available_bytes();
        assert!(!rope.grow(&pool, 8000));
        assert_eq!(pool.available_bytes(), before);
        rope.put(&[7; 2048]);
        assert_eq!(rope.into_chunks().len(), 1);
    }

    #[test]
    fn a_chunk_returns_only_with_the_last_segment() {
        let pool = BufferPool::new(4096, 1024, 0);
        let mut rope = Rope::new(pool.try_acquire_of(10, 0).expect("the pool is empty"));
        rope.put(b"0123456789");
        let segments: Vec<Bytes> = rope.into_chunks().into_iter().map(Chunk::freeze).collect();
        let in_flight = segments.clone();
        drop(segments);
        assert_eq!(pool.available_bytes(), 4096 - 1024);
        assert_eq!(in_flight[0].slice(2..4), &b"23"[..]);
        drop(in_flight);
        assert_eq!(pool.available_bytes(), 4096);
    }
}
