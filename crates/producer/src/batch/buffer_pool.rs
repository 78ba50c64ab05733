//! Holds the memory of all records that are not acknowledged yet, below one common limit.
//!
//! ```text
//!   try_acquire_of ──▶ Reservation of Chunks ──▶ an open batch ──▶ Bytes segments of requests
//!        │ no room, or a thread waits already                         │ last clone dropped
//!        ▼                                                            ▼
//!   BufferWait (first come, first served) ◀── feed ◀──────────── release
//! ```
//! Chunks have two sizes. A batch starts with small ones, so ten thousand partitions with one
//! record each do not hold ten thousand large chunks. The pool reuses free chunks of both sizes.
//! The rest of its memory has no size until a thread asks for it. A large record takes many chunks.
//! Its wait collects them one by one while it is first in the queue, so small records cannot starve
//! it.
//!
//! A [`Chunk`] returns to the pool only when it is dropped. A request in flight holds its chunks as
//! `Bytes`, so no chunk is reused while a socket may still read it (KAFKA-19012).
//!
//! The pool never blocks. A caller polls its wait with a waker and decides itself how long to wait.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::batch::chunk::{Chunk, Reservation};
use crate::error::ProducerError;
use crate::sync::lock;

const SMALL_CHUNK_BYTES_MAX: usize = 1024;
const LARGE_CHUNK_BYTES_MAX: usize = 16 * 1024;
const CHUNK_BYTES_MIN: usize = 256;

/// The memory for records, granted first come, first served.
#[derive(Debug)]
pub struct BufferPool {
    total: usize,
    reserved: usize,
    small: usize,
    large: usize,
    /// Number of waits in the queue. Atomic, so that callers see without the lock if memory is
    /// short.
    waiting: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Bytes that are neither granted nor in a free buffer.
    unallocated: usize,
    /// Bytes in chunks, and in pieces collected for waits.
    granted: usize,
    free_small: Vec<Box<[u8]>>,
    free_large: Vec<Box<[u8]>>,
    /// Waits that still lack memory, in the order of their tickets.
    queue: BTreeMap<u64, Waiter>,
    /// Waits that have all their memory but were not polled since.
    ready: BTreeMap<u64, Vec<Piece>>,
    next_ticket: u64,
    closed: bool,
}

#[derive(Debug)]
struct Waiter {
    /// Sizes still to be granted, the next one last.
    wanted: Vec<usize>,
    gathered: Vec<Piece>,
    waker: Option<Waker>,
}

/// Memory of `size` bytes that the pool granted: a used buffer, or the right to allocate a new one.
#[derive(Debug)]
struct Piece {
    size: usize,
    used: Option<Box<[u8]>>,
}

impl Piece {
    fn into_chunk(self, pool: &Arc<BufferPool>) -> Chunk {
        let bytes = self
            .used
            .unwrap_or_else(|| vec![0; self.size].into_boxed_slice());
        Chunk::new(bytes, Arc::clone(pool))
    }
}

impl BufferPool {
    /// Creates a pool of `total` bytes, of which `reserved` are not granted: the codec threads'
    /// output uses them. Chunks are never larger than a batch.
    pub fn new(total: usize, batch_size: usize, reserved: usize) -> Arc<Self> {
        let reserved = reserved.min(total);
        let available = total - reserved;
        let large = batch_size
            .clamp(CHUNK_BYTES_MIN, LARGE_CHUNK_BYTES_MAX)
            .min(available.max(1));
        Arc::new(Self {
            total,
            reserved,
            small: large.min(SMALL_CHUNK_BYTES_MAX),
            large,
            waiting: AtomicUsize::new(0),
            inner: Mutex::new(Inner {
                unallocated: available,
                ..Inner::default()
            }),
        })
    }

    /// Returns the size of the largest request that the pool can ever grant.
    pub fn request_bytes_max(&self) -> usize {
        self.total - self.reserved
    }

    pub fn total_bytes(&self) -> usize {
        self.total
    }

    pub(crate) fn small_chunk_bytes(&self) -> usize {
        self.small
    }

    pub(crate) fn large_chunk_bytes(&self) -> usize {
        self.large
    }

    /// Returns the number of free bytes.
    pub fn available_bytes(&self) -> usize {
        self.free_bytes(&lock(&self.inner))
    }

    /// Returns whether a thread waits for memory. If so, send everything that can be sent.
    #[inline]
    pub fn is_exhausted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Returns the number of waits in the queue.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Takes one chunk of exactly one of the two sizes, without waiting.
    #[inline]
    pub(crate) fn try_chunk(self: &Arc<Self>, size: usize) -> Option<Chunk> {
        self.try_chunk_of(size, 0)
    }

    #[inline]
    fn try_chunk_of(self: &Arc<Self>, size: usize, free_min: usize) -> Option<Chunk> {
        let piece = {
            let mut inner = lock(&self.inner);
            if !inner.queue.is_empty() || inner.closed || self.free_bytes(&inner) < free_min {
                return None;
            }
            let piece = self.take(&mut inner, size)?;
            self.check(&inner);
            piece
        };
        // A new buffer is allocated here, outside the lock.
        Some(piece.into_chunk(self))
    }

    /// Takes room for `len` bytes without waiting. Returns `None` if memory is short, if others
    /// wait for it, or if fewer than `free_min` bytes (including these) are free.
    pub fn try_acquire_of(self: &Arc<Self>, len: usize, free_min: usize) -> Option<Reservation> {
        if len <= self.large {
            let size = if len <= self.small {
                self.small
            } else {
                self.large
            };
            return self.try_chunk_of(size, free_min).map(Reservation::from);
        }
        let sizes = self.sizes(len);
        let pieces = {
            let mut inner = lock(&self.inner);
            if !inner.queue.is_empty()
                || inner.closed
                || self.free_bytes(&inner) < free_min.max(sizes.iter().sum())
            {
                return None;
            }
            let pieces: Vec<Piece> = sizes
                .iter()
                .rev()
                .map_while(|&size| self.take(&mut inner, size))
                .collect();
            assert_eq!(
                pieces.len(),
                sizes.len(),
                "the pool has as many free bytes as it counted"
            );
            self.check(&inner);
            pieces
        };
        Some(
            pieces
                .into_iter()
                .map(|piece| piece.into_chunk(self))
                .collect(),
        )
    }

    /// Queues for room for `len` bytes, which must not exceed [`Self::request_bytes_max`].
    pub fn wait(self: &Arc<Self>, len: usize) -> BufferWait {
        assert!(
            len <= self.request_bytes_max(),
            "the caller refuses records that are larger than the pool"
        );
        let wanted = self.sizes(len);
        let mut inner = lock(&self.inner);
        let ticket = inner.next_ticket;
        inner.next_ticket += 1;
        if inner.closed {
            // The wait is not queued. Its first poll reports that the producer is closed.
            drop(inner);
            return BufferWait {
                pool: Arc::clone(self),
                ticket,
                finished: false,
            };
        }
        inner.queue.insert(
            ticket,
            Waiter {
                wanted,
                gathered: Vec::new(),
                waker: None,
            },
        );
        let woken = self.feed(&mut inner);
        drop(inner);
        wake_all(woken);
        BufferWait {
            pool: Arc::clone(self),
            ticket,
            finished: false,
        }
    }

    /// Takes a chunk's memory back. Only the `Drop` of [`Chunk`] calls this.
    pub(crate) fn release(&self, bytes: Box<[u8]>) {
        let mut inner = lock(&self.inner);
        let unused = self.put_back(
            &mut inner,
            Piece {
                size: bytes.len(),
                used: Some(bytes),
            },
        );
        let woken = if inner.queue.is_empty() {
            Vec::new()
        } else {
            self.feed(&mut inner)
        };
        self.check(&inner);
        drop(inner);
        drop(unused);
        wake_all(woken);
    }

    /// Ends all waits with an error, because the producer closes.
    pub fn close(&self) {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        let queue = std::mem::take(&mut inner.queue);
        self.waiting.store(0, Ordering::Relaxed);
        let mut woken = Vec::new();
        for waiter in queue.into_values() {
            for piece in waiter.gathered {
                self.put_back(&mut inner, piece);
            }
            woken.extend(waiter.waker);
        }
        self.check(&inner);
        drop(inner);
        wake_all(woken);
    }

    /// Splits a request into large chunks and one chunk for the remainder. The remainder comes
    /// first, as the pool grants sizes from the end.
    fn sizes(&self, len: usize) -> Vec<usize> {
        let (whole, rest) = (len / self.large, len % self.large);
        let rounded = match rest {
            0 => 0,
            rest if rest <= self.small => self.small,
            _ => self.large,
        };
        // Rounding up must not ask for more than the pool can ever grant.
        let fits = whole * self.large + rounded <= self.request_bytes_max();
        let rest = if fits { rounded } else { rest };
        let mut sizes = Vec::with_capacity(whole + 1);
        sizes.extend((rest > 0).then_some(rest));
        sizes.extend(std::iter::repeat_n(self.large, whole));
        sizes
    }

    #[inline]
    fn take(&self, inner: &mut Inner, size: usize) -> Option<Piece> {
        let used = if size == self.large {
            inner.free_large.pop()
        } else if size == self.small {
            inner.free_small.pop()
        } else {
            None
        };
        if used.is_none() {
            self.make_room(inner, size)?;
            inner.unallocated -= size;
        }
        inner.granted += size;
        Some(Piece { size, used })
    }

    /// Frees unused buffers until at least `size` bytes are unallocated.
    #[inline]
    fn make_room(&self, inner: &mut Inner, size: usize) -> Option<()> {
        if inner.unallocated >= size {
            return Some(());
        }
        if self.free_bytes(inner) < size {
            return None;
        }
        while inner.unallocated < size && inner.free_small.pop().is_some() {
            inner.unallocated += self.small;
        }
        while inner.unallocated < size && inner.free_large.pop().is_some() {
            inner.unallocated += self.large;
        }
        Some(())
    }

    /// Takes a piece back. Returns a buffer that the pool cannot reuse: free it outside the lock.
    #[inline]
    fn put_back(&self, inner: &mut Inner, piece: Piece) -> Option<Box<[u8]>> {
        inner.granted = inner
            .granted
            .checked_sub(piece.size)
            .expect("each chunk is returned once, with the size that was granted");
        match piece.used {
            Some(bytes) if piece.size == self.large => {
                inner.free_large.push(bytes);
                None
            }
            Some(bytes) if piece.size == self.small => {
                inner.free_small.push(bytes);
                None
            }
            other => {
                inner.unallocated += piece.size;
                other
            }
        }
    }

    /// Grants free memory to the first wait in the queue until it has enough or no memory is left,
    /// then to the next.
    fn feed(&self, inner: &mut Inner) -> Vec<Waker> {
        let mut woken = Vec::new();
        while let Some((ticket, mut waiter)) = inner.queue.pop_first() {
            while let Some(&size) = waiter.wanted.last() {
                let Some(piece) = self.take(inner, size) else {
                    break;
                };
                waiter.wanted.pop();
                waiter.gathered.push(piece);
            }
            if !waiter.wanted.is_empty() {
                inner.queue.insert(ticket, waiter);
                break;
            }
            woken.extend(waiter.waker);
            inner.ready.insert(ticket, waiter.gathered);
        }
        self.waiting.store(inner.queue.len(), Ordering::Relaxed);
        woken
    }

    #[inline]
    fn free_bytes(&self, inner: &Inner) -> usize {
        inner.unallocated
            + inner.free_small.len() * self.small
            + inner.free_large.len() * self.large
    }

    /// Asserts the invariant of the pool: granted + free + reserved = total.
    #[inline]
    fn check(&self, inner: &Inner) {
        assert_eq!(
            inner.granted + self.free_bytes(inner) + self.reserved,
            self.total,
            "granted + free + reserved = total"
        );
    }

    fn abandon(&self, ticket: u64) {
        let mut inner = lock(&self.inner);
        let gathered = match inner.queue.remove(&ticket) {
            Some(waiter) => waiter.gathered,
            None => inner.ready.remove(&ticket).unwrap_or_default(),
        };
        for piece in gathered {
            self.put_back(&mut inner, piece);
        }
        // Its memory, and its place in the queue, pass to the waits after it.
        let woken = self.feed(&mut inner);
        self.check(&inner);
        drop(inner);
        wake_all(woken);
    }
}

fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}

/// A place in the queue for memory. Dropping it returns the place and the memory collected for it.
#[derive(Debug)]
pub struct BufferWait {
    pool: Arc<BufferPool>,
    ticket: u64,
    finished: bool,
}

impl BufferWait {
    /// Returns the memory once it is granted, or an error if the producer was closed. Wakes `waker`
    /// when another poll will find either.
    pub fn poll_reservation(&mut self, waker: &Waker) -> Poll<Result<Reservation, ProducerError>> {
        let pieces = {
            let mut inner = lock(&self.pool.inner);
            if let Some(waiter) = inner.queue.get_mut(&self.ticket) {
                if !waiter
                    .waker
                    .as_ref()
                    .is_some_and(|known| known.will_wake(waker))
                {
                    waiter.waker = Some(waker.clone());
                }
                return Poll::Pending;
            }
            inner.ready.remove(&self.ticket)
        };
        self.finished = true;
        // The wait is in neither map, so `close` has emptied the queue.
        let Some(pieces) = pieces else {
            return Poll::Ready(Err(ProducerError::Closed));
        };
        Poll::Ready(Ok(pieces
            .into_iter()
            .map(|piece| piece.into_chunk(&self.pool))
            .collect()))
    }
}

impl Future for BufferWait {
    type Output = Result<Reservation, ProducerError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_reservation(context.waker())
    }
}

impl Drop for BufferWait {
    fn drop(&mut self) {
        if !self.finished {
            self.pool.abandon(self.ticket);
        }
    }
}
