//! The memory of all records that are not acknowledged yet, with one cap for all of it.
//!
//! ```text
//!   try_acquire_of ──▶ Reservation of Chunks ──▶ an open batch ──▶ Bytes segments of requests
//!        │ no room, or somebody waits already                         │ last clone dropped
//!        ▼                                                            ▼
//!   BufferWait (first come, first served) ◀── feed ◀──────────── release
//! ```
//! Chunks have two sizes: the first ones of a batch are small, so that ten thousand partitions with
//! a record each do not hold ten thousand large ones. Both are kept and used again; what is left of
//! the cap belongs to neither until somebody asks. A large record takes many chunks, gathered piece
//! by piece while it is first in the queue, so small ones cannot starve it.
//!
//! A [`Chunk`] returns by being dropped, and only so: a request in flight holds it as `Bytes`, hence
//! it cannot be used again while a socket may still read it (KAFKA-19012).
//!
//! Deliberately not here: blocking. A wait is polled with a waker, and who waits sets the limit.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::chunk::{Chunk, Reservation};
use crate::error::ProducerError;
use crate::sync::lock;

const SMALL_CHUNK_BYTES_MAX: usize = 1024;
const LARGE_CHUNK_BYTES_MAX: usize = 16 * 1024;
const CHUNK_BYTES_MIN: usize = 256;

/// Memory for records, first come, first served.
#[derive(Debug)]
pub struct BufferPool {
    total: usize,
    reserved: usize,
    small: usize,
    large: usize,
    /// Waits in the queue: read without the lock by everyone who asks "is memory short?".
    waiting: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Bytes in nobody's hands and in no buffer.
    unallocated: usize,
    /// Bytes in chunks, and in pieces gathered for waits.
    granted: usize,
    free_small: Vec<Box<[u8]>>,
    free_large: Vec<Box<[u8]>>,
    /// Waits that lack memory, in the order of their tickets.
    queue: BTreeMap<u64, Waiter>,
    /// Waits that have all they asked for and were not polled since.
    ready: BTreeMap<u64, Vec<Piece>>,
    next_ticket: u64,
    closed: bool,
}

#[derive(Debug)]
struct Waiter {
    /// Sizes still wanted; the last comes first.
    wanted: Vec<usize>,
    gathered: Vec<Piece>,
    waker: Option<Waker>,
}

/// Memory of `size` bytes that the pool has given out: a used buffer, or the right to a new one.
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
    /// `total` bytes, of which `reserved` are spoken for already (the codec threads' outputs).
    /// Chunks are never larger than a batch.
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

    /// The largest request that can ever be granted.
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

    /// Bytes that nobody holds.
    pub fn available_bytes(&self) -> usize {
        self.free_bytes(&lock(&self.inner))
    }

    /// Somebody waits for memory: whatever can be sent should be.
    #[inline]
    pub fn is_exhausted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits in the queue.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// One chunk of the size of a class, without waiting.
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
        // A new buffer is allocated here, outside of the lock.
        Some(piece.into_chunk(self))
    }

    /// Room for `len` bytes, unless it lacks or others wait for theirs, and only while at least
    /// `free_min` bytes are free, these among them.
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
                "the free bytes were counted before"
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

    /// Queues for room for `len` bytes, which must not be more than [`Self::request_bytes_max`].
    pub fn wait(self: &Arc<Self>, len: usize) -> BufferWait {
        assert!(
            len <= self.request_bytes_max(),
            "refused before: it could never be granted"
        );
        let wanted = self.sizes(len);
        let mut inner = lock(&self.inner);
        let ticket = inner.next_ticket;
        inner.next_ticket += 1;
        if inner.closed {
            // In no queue: its first poll says that the producer is closed.
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

    /// Takes a chunk's memory back. Only [`Chunk`]'s drop calls this.
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

    /// Ends all waits: the producer closes.
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

    /// How a request is cut: whole large chunks and one for the rest. The rest comes first, as
    /// pieces are taken from the end.
    fn sizes(&self, len: usize) -> Vec<usize> {
        let (whole, rest) = (len / self.large, len % self.large);
        let rounded = match rest {
            0 => 0,
            rest if rest <= self.small => self.small,
            _ => self.large,
        };
        // Rounding up must not ask for more than there can ever be.
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

    /// Gives up free buffers of the other size until `size` bytes belong to none.
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

    /// Gives back a buffer that is of no use to the pool, to be freed outside of the lock.
    #[inline]
    fn put_back(&self, inner: &mut Inner, piece: Piece) -> Option<Box<[u8]>> {
        inner.granted = inner
            .granted
            .checked_sub(piece.size)
            .expect("a chunk returns once, with the size it was granted");
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

    /// Gives free memory to the first in the queue until it has enough or nothing is left, then to
    /// the next.
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

    /// Memory used = granted + free at every moment.
    #[inline]
    fn check(&self, inner: &Inner) {
        assert_eq!(
            inner.granted + self.free_bytes(inner) + self.reserved,
            self.total,
            "granted + free = total"
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
        // What it held, and its place in front, go to those behind it.
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

/// A place in the queue for memory. Dropping it gives the place up, and what was gathered with it.
#[derive(Debug)]
pub struct BufferWait {
    pool: Arc<BufferPool>,
    ticket: u64,
    finished: bool,
}

impl BufferWait {
    /// The memory once it is there; an error if the producer was closed. `waker` is woken when
    /// another poll will find either.
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
        // Neither waiting nor ready: `close` emptied the queue.
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
