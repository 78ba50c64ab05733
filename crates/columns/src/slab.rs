//! A pool of column memory: columns take buffers, and Arrow's release returns them.
//!
//! ```text
//! SlabPool --take--> Vec<T> --filled by a column--> Buffer --exported--> pyarrow, polars, Spark
//!     ^                                                          |
//!     '------------- Slab dropped (release callback) ------------'
//! ```
//! New buffers of megabytes cost a page fault for each 4 KiB, which takes longer than filling them.
//! The pool keeps at most `limit_bytes` of idle memory, and frees what is returned beyond that. It
//! does not limit the memory in use: the sink does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer, ToByteSlice};
use bytes::Bytes;

/// Smaller vectors are not worth keeping.
const SLAB_BYTES_MIN: usize = 4096;

#[derive(Debug, Default)]
struct Idle {
    bytes: Vec<Vec<u8>>,
    ints: Vec<Vec<i32>>,
    longs: Vec<Vec<i64>>,
    held_bytes: usize,
}

/// Idle column memory, shared by all tables of a consumer.
#[derive(Debug)]
pub struct SlabPool {
    idle: Mutex<Idle>,
    limit_bytes: usize,
}

impl SlabPool {
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            idle: Mutex::default(),
            limit_bytes,
        })
    }

    /// Returns the number of idle bytes.
    pub fn idle_bytes(&self) -> usize {
        self.lock().held_bytes
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        // A panic while this lock is held leaves the vectors intact.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an empty vector with the memory of an earlier one that had room for `len_hint`
    /// elements. If there is none, uses the largest one.
    pub(crate) fn take<T: SlabElement>(&self, len_hint: usize) -> Vec<T> {
        if len_hint == 0 {
            return Vec::new();
        }
        let mut idle = self.lock();
        let shelf = T::shelf(&mut idle);
        let at = shelf.partition_point(|kept| kept.capacity() < len_hint);
        let taken = if at < shelf.len() {
            shelf.remove(at)
        } else {
            shelf.pop().unwrap_or_default()
        };
        idle.held_bytes -= size_of::<T>() * taken.capacity();
        taken
    }

    fn give<T: SlabElement>(&self, mut vec: Vec<T>) {
        vec.clear();
        let bytes = size_of::<T>() * vec.capacity();
        if bytes < SLAB_BYTES_MIN {
            return;
        }
        let mut idle = self.lock();
        if idle.held_bytes + bytes <= self.limit_bytes {
            idle.held_bytes += bytes;
            // Keep the list sorted by capacity.
            let shelf = T::shelf(&mut idle);
            let at = shelf.partition_point(|kept| kept.capacity() < vec.capacity());
            shelf.insert(at, vec);
        }
    }
}

/// The element types of columns: the three widths.
pub(crate) trait SlabElement: ArrowNativeType {
    #[expect(private_interfaces, reason = "the trait is sealed in this crate")]
    fn shelf(idle: &mut Idle) -> &mut Vec<Vec<Self>>;
}

macro_rules! slab_element {
    ($type:ty, $shelf:ident) => {
        impl SlabElement for $type {
            #[expect(private_interfaces, reason = "the trait is sealed in this crate")]
            fn shelf(idle: &mut Idle) -> &mut Vec<Vec<Self>> {
                &mut idle.$shelf
            }
        }
    };
}
slab_element!(u8, bytes);
slab_element!(i32, ints);
slab_element!(i64, longs);

/// A filled vector that Arrow uses. It returns to the pool when the last array is dropped.
struct Slab<T: SlabElement> {
    vec: Vec<T>,
    pool: Arc<SlabPool>,
}

impl<T: SlabElement> AsRef<[u8]> for Slab<T> {
    fn as_ref(&self) -> &[u8] {
        self.vec.as_slice().to_byte_slice()
    }
}

impl<T: SlabElement> Drop for Slab<T> {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.vec));
    }
}

/// Turns a vector into an Arrow buffer, without a copy.
pub(crate) fn buffer<T: SlabElement + Send + 'static>(vec: Vec<T>, pool: &Arc<SlabPool>) -> Buffer {
    if vec.capacity() * size_of::<T>() < SLAB_BYTES_MIN {
        return Buffer::from(vec);
    }
    Buffer::from(Bytes::from_owner(Slab {
        vec,
        pool: Arc::clone(pool),
    }))
}

pub(crate) fn scalars<T: SlabElement + Send + 'static>(
    vec: Vec<T>,
    pool: &Arc<SlabPool>,
) -> ScalarBuffer<T> {
    let len = vec.len();
    ScalarBuffer::new(buffer(vec, pool), 0, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_when_the_last_array_is_gone() {
        let pool = SlabPool::new(1 << 20);
        let filled = vec![7_i64; 1000];
        let address = filled.as_ptr();
        let scalars = scalars(filled, &pool);
        let another = scalars.clone();
        drop(scalars);
        assert_eq!(pool.idle_bytes(), 0);
        assert_eq!(another[999], 7);
        drop(another);
        assert_eq!(pool.idle_bytes(), 8000);
        let again = pool.take::<i64>(10);
        assert_eq!(
            (again.as_ptr(), again.len(), pool.idle_bytes()),
            (address, 0, 0)
        );
    }

    #[test]
    fn the_smallest_that_is_large_enough_is_taken() {
        let pool = SlabPool::new(1 << 20);
        for kilobytes in [64, 8, 16] {
            drop(buffer(Vec::<u8>::with_capacity(kilobytes * 1024), &pool));
        }
        assert_eq!(pool.take::<u8>(10_000).capacity(), 16 * 1024);
        assert_eq!(pool.take::<u8>(1 << 20).capacity(), 64 * 1024);
        assert_eq!(pool.take::<u8>(0).capacity(), 0);
        assert_eq!(pool.idle_bytes(), 8 * 1024);
    }

    #[test]
    fn idle_memory_is_bounded_and_small_vectors_are_not_kept() {
        let pool = SlabPool::new(10_000);
        drop(buffer(vec![0_u8; 8000], &pool));
        drop(buffer(vec![0_u8; 8000], &pool));
        drop(buffer(vec![0_u8; 100], &pool));
        assert_eq!(pool.idle_bytes(), 8000);
    }
}
