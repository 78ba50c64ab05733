//! Wakes an event loop that watches descriptors. Any thread rings it, and the loop silences it.

use std::io;

#[cfg(unix)]
use super::descriptor::Gate;

/// A descriptor that is readable from a ring until it is silenced.
pub struct Doorbell {
    #[cfg(unix)]
    gate: Gate,
}

impl Doorbell {
    /// Makes a doorbell. Fails if the system has no such descriptor, or none left.
    #[cfg(unix)]
    pub fn new() -> io::Result<Self> {
        let gate = Gate::new()?;
        Ok(Self { gate })
    }

    /// Makes a doorbell. Fails if the system has no such descriptor, or none left.
    #[cfg(not(unix))]
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes the descriptor readable. An extra ring is harmless.
    pub fn ring(&self) {
        #[cfg(unix)]
        self.gate.open();
    }

    /// Makes the descriptor unreadable until the next ring. Call this first, then look for news.
    pub fn silence(&self) {
        #[cfg(unix)]
        self.gate.close();
    }

    /// Returns the descriptor to watch for being readable.
    pub fn descriptor(&self) -> i32 {
        #[cfg(unix)]
        return self.gate.descriptor();
        #[cfg(not(unix))]
        unreachable!("only Unix can create a doorbell");
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::super::Wait;
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn many_rings_are_silenced_at_once() {
        let bell = Doorbell::new().expect("a descriptor");
        assert!(bell.descriptor() >= 0);
        let soon = || Some(Instant::now() + Duration::from_millis(5));
        assert_eq!(bell.gate.wait(soon()), Wait::TimedOut);
        bell.ring();
        bell.ring();
        bell.silence();
        assert_eq!(bell.gate.wait(soon()), Wait::TimedOut);
        bell.ring();
        assert_eq!(bell.gate.wait(soon()), Wait::Notified);
    }
}
