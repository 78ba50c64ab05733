//! A value that one thread sets once, for others that wait for it.
//!
//! It does not wait itself: a waiter leaves a [`Waker`] of a task or of a parked thread.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

#[derive(Debug)]
struct State<T> {
    /// `None` before it is set, and after it is taken.
    value: Option<T>,
    is_set: bool,
    wakers: Vec<Waker>,
}

#[derive(Debug)]
pub struct OneShot<T>(Mutex<State<T>>);

impl<T> Default for OneShot<T> {
    fn default() -> Self {
        Self(Mutex::new(State {
            value: None,
            is_set: false,
            wakers: Vec::new(),
        }))
    }
}

impl<T> OneShot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the value, and wakes all waiters. Only the first call counts.
    pub fn set(&self, value: T) {
        let mut state = self.lock();
        if state.is_set {
            return;
        }
        state.is_set = true;
        state.value = Some(value);
        // A waker may run foreign code, which must not run under the lock.
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        for waker in wakers {
            waker.wake();
        }
    }

    pub fn is_set(&self) -> bool {
        self.lock().is_set
    }

    /// Takes the value if it is there, and was not taken before.
    pub fn take(&self) -> Option<T> {
        self.lock().value.take()
    }

    /// Takes the value if it is there. Otherwise `waker` is woken when it is set. A value that was
    /// taken before wakes no thread.
    pub fn take_or_wait(&self, waker: &Waker) -> Option<T> {
        let mut state = self.lock();
        state.wait(waker);
        state.value.take()
    }

    /// Looks at the value without taking it. It is `None` if it is not set yet, or was taken.
    pub fn peek<R>(&self, look: impl FnOnce(Option<&T>) -> R) -> R {
        look(self.lock().value.as_ref())
    }

    /// Works like [`Self::peek`]. If the value is not set yet, `waker` is woken when it is.
    pub fn peek_or_wait<R>(&self, waker: &Waker, look: impl FnOnce(Option<&T>) -> R) -> R {
        let mut state = self.lock();
        state.wait(waker);
        look(state.value.as_ref())
    }

    /// Wakes `waker` once the value is set, or at once if it is already.
    pub fn on_set(&self, waker: Waker) {
        let mut state = self.lock();
        if state.is_set {
            drop(state);
            waker.wake();
        } else {
            state.wakers.push(waker);
        }
    }
}

impl<T> State<T> {
    fn wait(&mut self, waker: &Waker) {
        if !self.is_set && !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_first_value_counts_and_is_taken_once() {
        let one = OneShot::default();
        assert_eq!(one.take(), None);
        one.set(7);
        one.set(8);
        assert!(one.peek(|value| value == Some(&7)));
        assert_eq!((one.take(), one.take()), (Some(7), None));
        assert!(one.is_set());
    }

    #[test]
    fn each_waiter_is_woken_once_and_a_late_one_at_once() {
        let (one, counted) = (OneShot::default(), Arc::new(Counted::default()));
        let waker = Waker::from(Arc::clone(&counted));
        assert_eq!(one.take_or_wait(&waker), None);
        assert_eq!(one.take_or_wait(&waker), None, "the same waker again");
        one.set(7);
        assert_eq!(counted.0.load(Ordering::SeqCst), 1);
        assert_eq!(one.take_or_wait(&waker), Some(7));
        one.on_set(waker);
        assert_eq!(counted.0.load(Ordering::SeqCst), 2);
    }
}
