//! The actor's queues: events of its connections, commands of other threads, calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Instant;

use thalweg_cluster::{Cluster, Event, Notifier};

use super::pending::UnsentRequest;
use crate::connection::EventSink;
use crate::error::ClientError;

pub(crate) type ClusterCall = Box<dyn FnOnce(&mut Cluster, Instant) + Send>;

/// A command for any client, whatever its role.
pub(crate) enum Command {
    Request(UnsentRequest),
    Cluster(ClusterCall),
    Close { deadline: Instant },
}

/// Reports how the client has ended.
type Tell = Box<dyn FnOnce(ClientError) + Send>;

/// Why the client ended, for everyone who still waits for it.
#[derive(Clone, Default)]
pub(crate) struct Ending(Arc<Ended>);

#[derive(Default)]
struct Ended {
    failure: OnceLock<Arc<str>>,
    /// Callers whose replies a panic dropped. The panic's message is known only later.
    untold: Mutex<Vec<Tell>>,
}

impl Ending {
    /// Notes that the client has failed. Only the first reason is kept.
    pub(crate) fn fail(&self, reason: &str) {
        self.0.failure.get_or_init(|| Arc::from(reason));
        self.tell_all();
    }

    /// Calls `tell` once the client has ended.
    pub(crate) fn tell_later(&self, tell: Tell) {
        push(&self.0.untold, tell);
    }

    fn tell_all(&self) {
        for tell in take(&self.0.untold) {
            tell(self.error());
        }
    }

    pub(crate) fn failure(&self) -> Option<ClientError> {
        let why = self.0.failure.get();
        why.map(|why| ClientError::Failed(Arc::clone(why)))
    }

    /// Returns the error for a call to which the client no longer responds.
    pub(crate) fn error(&self) -> ClientError {
        self.failure().unwrap_or(ClientError::Closed)
    }
}

/// The actor's queues. The notifier wakes the actor at most once per sleep.
pub(crate) struct Inbox {
    notifier: Arc<Notifier>,
    events: Mutex<Vec<Event>>,
    commands: Mutex<Vec<Command>>,
    closed: AtomicBool,
    ended: AtomicBool,
    ending: Ending,
    close_waiters: Mutex<Vec<Waker>>,
}

fn locked<T>(queue: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn push<T>(queue: &Mutex<Vec<T>>, item: T) {
    locked(queue).push(item);
}

fn take<T>(queue: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *locked(queue))
}

impl Inbox {
    pub(crate) fn new(notifier: Arc<Notifier>) -> Self {
        Self {
            notifier,
            events: Mutex::default(),
            commands: Mutex::default(),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            ending: Ending::default(),
            close_waiters: Mutex::default(),
        }
    }

    pub(crate) fn notifier(&self) -> &Arc<Notifier> {
        &self.notifier
    }

    pub(crate) fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Queues a command. If it is dropped, its ticket gets the reason why the client ended.
    pub(crate) fn command(&self, command: Command) {
        push(&self.commands, command);
        if self.is_closed() {
            drop(take(&self.commands));
        }
        self.notifier.notify();
    }

    pub(crate) fn take_events(&self) -> Vec<Event> {
        take(&self.events)
    }

    pub(crate) fn take_commands(&self) -> Vec<Command> {
        take(&self.commands)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Takes no more commands. Must come before the first request is dropped: a caller that gets
    /// the error of one then finds the client closed.
    pub(crate) fn set_closed(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Ends the inbox. The flag is set before the last look at the queues, so that a command is
    /// seen either there or by the thread that queued it.
    pub(crate) fn end(&self) {
        self.set_closed();
        drop(take(&self.commands));
        self.ending.tell_all();
        self.ended.store(true, Ordering::Release);
        for waiter in take(&self.close_waiters) {
            waiter.wake();
        }
    }

    /// Returns `Some` if the client has ended. Otherwise `waker` is woken when it does.
    pub(crate) fn poll_ended(&self, waker: &Waker) -> Option<()> {
        let mut waiters = locked(&self.close_waiters);
        // Each caller polls many times.
        if !waiters.iter().any(|waiter| waiter.will_wake(waker)) {
            waiters.push(waker.clone());
        }
        drop(waiters);
        self.ended.load(Ordering::Acquire).then_some(())
    }
}

impl EventSink for Inbox {
    fn push(&self, event: Event) {
        push(&self.events, event);
        self.notifier.notify();
    }
}

type RoleCall<R> = Box<dyn FnOnce(&mut R, &mut Cluster, Instant) + Send>;

/// Calls into the role from other threads.
pub(crate) struct RoleCalls<R>(Mutex<Vec<RoleCall<R>>>);

impl<R> Default for RoleCalls<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R> RoleCalls<R> {
    pub(crate) fn push(&self, call: RoleCall<R>) {
        push(&self.0, call);
    }

    pub(crate) fn take(&self) -> Vec<RoleCall<R>> {
        take(&self.0)
    }

    pub(crate) fn clear(&self) {
        drop(self.take());
    }
}

/// Results of codec jobs.
pub(crate) struct JobResults<T>(Mutex<Vec<T>>);

impl<T> Default for JobResults<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> JobResults<T> {
    pub(crate) fn push(&self, result: T) {
        push(&self.0, result);
    }

    pub(crate) fn take(&self) -> Vec<T> {
        take(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_caller_that_polls_often_is_woken_once() {
        let inbox = Inbox::new(Arc::new(Notifier::new()));
        let callers = [Arc::new(Woken::default()), Arc::new(Woken::default())];
        let wakers = callers.each_ref().map(|it| Waker::from(Arc::clone(it)));
        for waker in wakers.iter().cycle().take(100) {
            assert_eq!(inbox.poll_ended(waker), None);
        }
        inbox.end();
        assert_eq!(inbox.poll_ended(&wakers[0]), Some(()));
        let woken = callers.map(|it| it.0.load(Ordering::SeqCst));
        assert_eq!(woken, [1, 1]);
    }
}
