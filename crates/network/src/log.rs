//! Events for the application's log: a level check, then a bounded queue that the binding empties.
//!
//! Emitting never blocks and never takes the GIL. When the queue is full, events are only counted,
//! and the next event that fits says how many were lost.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::per_process::PerProcess;

const EVENTS_MAX: usize = 1000;

/// Log levels, with Python's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    Debug = 10,
    Info = 20,
    Warning = 30,
    Error = 40,
}

/// The loggers `thalweg.<name>` that Rust code writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Logger {
    Producer,
    Consumer,
    Network,
}

impl Logger {
    pub const ALL: [Self; 3] = [Self::Producer, Self::Consumer, Self::Network];

    pub(crate) fn named(name: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|logger| logger.name() == name)
            .unwrap_or(Self::Network)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Network => "network",
        }
    }
}

/// One line for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub logger: Logger,
    pub level: Level,
    pub message: String,
}

static LEVELS: [AtomicU8; 3] = [const { AtomicU8::new(Level::Warning as u8) }; 3];
static QUEUE: PerProcess<Mutex<Queue>> = PerProcess::new();

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    lost: u64,
    waker: Option<Waker>,
}

fn queue() -> MutexGuard<'static, Queue> {
    let queue = QUEUE.get_or_make(Mutex::default);
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the lowest level (Python's number) that is passed on for a logger.
pub fn set_level(logger: Logger, level: u8) {
    LEVELS[logger as usize].store(level, Ordering::Relaxed);
}

pub fn is_enabled(logger: Logger, level: Level) -> bool {
    level as u8 >= LEVELS[logger as usize].load(Ordering::Relaxed)
}

/// Queues an event. The message is built only if its level is enabled.
pub fn emit(logger: Logger, level: Level, message: impl FnOnce() -> String) {
    if !is_enabled(logger, level) {
        return;
    }
    push(Event {
        logger,
        level,
        message: message(),
    });
}

fn push(event: Event) {
    let waker = {
        let mut queue = queue();
        if queue.events.len() >= EVENTS_MAX {
            queue.lost += 1;
            return;
        }
        if queue.lost > 0 {
            let lost = std::mem::take(&mut queue.lost);
            let message = format!("{lost} log messages were lost: the queue for them was full");
            queue.events.push_back(Event {
                logger: event.logger,
                level: Level::Warning,
                message,
            });
        }
        queue.events.push_back(event);
        queue.waker.take()
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Takes all events. If there are none, the next event wakes `waker`.
pub fn drain(waker: Option<&Waker>) -> Vec<Event> {
    let mut queue = queue();
    if queue.events.is_empty() {
        queue.waker = waker.cloned();
    }
    queue.events.drain(..).collect()
}

/// Limits repeated messages: brokers that are down cause the same message many times a second.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    /// The latest message comes last.
    told: VecDeque<(String, Instant)>,
}

/// After this time the same message is passed on again.
const REPEAT_AFTER: Duration = Duration::from_secs(10);

/// The number of remembered messages. An older message is passed on again.
const REMEMBERED_MAX: usize = 32;

impl Repeated {
    pub(crate) fn is_news(&mut self, message: &str, now: Instant) -> bool {
        self.told.retain(|(_, at)| now < *at + REPEAT_AFTER);
        if self.told.iter().any(|(told, _)| told == message) {
            return false;
        }
        if self.told.len() == REMEMBERED_MAX {
            self.told.pop_front();
        }
        self.told.push_back((message.to_owned(), now));
        true
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thalweg.{}: {}", self.logger.name(), self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_that_are_down_together_are_each_told_of_once_in_a_while() {
        let mut repeated = Repeated::default();
        let start = crate::clock::now();
        assert!(repeated.is_news("a is down", start));
        assert!(repeated.is_news("b is down", start));
        for seconds in 0..10 {
            let now = start + Duration::from_secs(seconds);
            assert!(!repeated.is_news("a is down", now));
            assert!(!repeated.is_news("b is down", now));
        }
        assert!(repeated.is_news("a is down", start + REPEAT_AFTER));
    }

    #[test]
    fn so_many_messages_are_remembered_and_no_more() {
        let mut repeated = Repeated::default();
        let now = crate::clock::now();
        for number in 0..1000 {
            assert!(repeated.is_news(&number.to_string(), now));
        }
        assert_eq!(repeated.told.len(), REMEMBERED_MAX);
        assert!(!repeated.is_news("999", now));
    }
}
