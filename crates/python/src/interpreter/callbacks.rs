//! The callback thread, which runs the application's callbacks in the order of completion.
//!
//! ```text
//! add_callback (GIL) ── entry under a token ──▶ table
//! batch completes (I/O thread, no GIL) ── token ──▶ queue ──▶ callback thread ── GIL ──▶ f(...)
//! ```
//! The I/O thread handles only tokens, because it must not wait for the GIL or drop a Python
//! object. A process has one callback thread. A forked child starts its own when it first needs
//! it, and leaks the inherited one, because a thread that no longer exists may hold its locks.
//!
//! A second thread of the same kind does our own short work on responses ([`responses`]), such as
//! waking a poll. So a callback that blocks does not delay the work of groups.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use thalweg_network::{BlockedSignals, PerProcess};

use crate::interpreter::failures::caught;
use crate::interpreter::foreign::Foreign;
use crate::interpreter::gil;

/// The same size as a main thread: callbacks may recurse as deep as other application code.
const STACK_BYTES: usize = 8 << 20;

/// Work for the callback thread. It handles its own Python errors (see [`super::failures::report`]).
pub(crate) type Work = Box<dyn FnOnce(Python<'_>) + Send>;

/// Identifies the work that is registered for one completion.
pub(crate) type Token = u64;

/// Makes a token due on its thread, which is another one after a fork.
struct TokenWaker {
    token: Token,
    thread: fn() -> &'static Callbacks,
}

impl Wake for TokenWaker {
    fn wake(self: Arc<Self>) {
        (self.thread)().completed(self.token);
    }
}

/// Returns a waker that completes a token of [`current`] or [`responses`], from any thread.
pub(crate) fn waker(token: Token, thread: fn() -> &'static Callbacks) -> Waker {
    Waker::from(Arc::new(TokenWaker { token, thread }))
}

/// Work that is repeated.
pub(crate) type Repeated = Box<dyn Fn(Python<'_>) + Send + Sync>;

/// Identifies repeated work, in the process that registered it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimerId {
    pid: u32,
    number: u64,
}

struct Timer {
    due: Instant,
    every: Duration,
    work: Arc<Repeated>,
}

enum Item {
    Completed(Token),
    /// A callback whose result was known when it was added.
    Run(Work),
    /// Our own work. No callback has to wait for it.
    Aside(Work),
}

impl Item {
    fn is_callback(&self) -> bool {
        !matches!(self, Self::Aside(_))
    }
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    timers: BTreeMap<u64, Timer>,
    /// The number of callbacks among the items and running now.
    callbacks_due: usize,
    /// The thread that ends the interpreter, once it has begun to.
    stopped_by: Option<ThreadId>,
    /// The thread has ended.
    finished: bool,
    /// Nothing is run any more.
    closed: bool,
}

pub(crate) struct Callbacks {
    name: &'static str,
    queue: Mutex<Queue>,
    wake: Condvar,
    table: Mutex<BTreeMap<Token, Work>>,
    next_token: AtomicU64,
    started: AtomicBool,
    /// Mirrors `stopped_by`. The thread checks it between two items.
    stopping: AtomicBool,
    starting: Mutex<()>,
}

thread_local! {
    static ON_CALLBACK_THREAD: Cell<bool> = const { Cell::new(false) };
}

static CURRENT: PerProcess<Callbacks> = PerProcess::new();
static RESPONSES: PerProcess<Callbacks> = PerProcess::new();

/// The name of the thread that runs the application's callbacks.
const CALLBACKS: &str = "thalweg-callbacks";

/// Returns the callback thread of this process.
pub(crate) fn current() -> &'static Callbacks {
    CURRENT.get_or_make(|| Callbacks::new(CALLBACKS))
}

/// Returns the thread for our own short work on responses. It runs no code of the application.
pub(crate) fn responses() -> &'static Callbacks {
    RESPONSES.get_or_make(|| Callbacks::new("thalweg-responses"))
}

/// Locks a mutex, even if its last holder panicked: it guards plain tables and queues, which stay
/// usable.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// Returns all items, after adding the work of timers that are due.
    fn with_due_timers(&mut self, now: Instant) -> &VecDeque<Item> {
        if self.stopped_by.is_some() {
            return &self.items;
        }
        for timer in self.timers.values_mut().filter(|timer| timer.due <= now) {
            timer.due = now + timer.every;
            let work = Arc::clone(&timer.work);
            self.items
                .push_back(Item::Aside(Box::new(move |py| work(py))));
        }
        &self.items
    }
}

impl Callbacks {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            queue: Mutex::default(),
            wake: Condvar::new(),
            table: Mutex::default(),
            next_token: AtomicU64::new(1),
            started: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            starting: Mutex::default(),
        }
    }

    /// Returns a new token. Its work runs once, after [`Self::completed`] was called with it.
    pub(crate) fn new_token(&self) -> Token {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }

    /// Stores the work until its token is completed.
    pub(crate) fn register(&'static self, token: Token, work: Work) {
        drop(self.start());
        locked(&self.table).insert(token, work);
    }

    /// Takes back the work of a token that will never be completed.
    pub(crate) fn take(&self, token: Token) -> Option<Work> {
        locked(&self.table).remove(&token)
    }

    /// Makes the token's work due. Called without the GIL.
    pub(crate) fn completed(&self, token: Token) {
        self.push(Item::Completed(token));
    }

    /// Runs work soon, after the items that are already due.
    pub(crate) fn run(&'static self, work: Work) {
        drop(self.start());
        self.push(Item::Aside(work));
    }

    /// Runs work whose result is known: at once in this thread, unless callbacks are already due,
    /// which must run first.
    pub(crate) fn run_now_or_in_turn(&'static self, py: Python<'_>, work: Work) {
        let queue = locked(&self.queue);
        let idle = queue.callbacks_due == 0;
        let is_another = |by: ThreadId| by != thread::current().id();
        if queue.stopped_by.is_some_and(is_another) {
            // A daemon thread. Until 3.14, CPython ends it where it next takes the interpreter's
            // lock. In a callback it has Rust frames below it, which abort the process.
            std::mem::forget(work);
            return;
        }
        drop(queue);
        if ON_CALLBACK_THREAD.get() {
            caught(py, || work(py));
        } else if idle {
            // The exit waits for this callback, as it does for the callback thread.
            let Ok(_foreign) = Foreign::begin(py) else {
                std::mem::forget(work);
                return;
            };
            caught(py, || work(py));
        } else {
            drop(self.start());
            self.push(Item::Run(work));
        }
    }

    /// Runs work repeatedly at an interval. A late run delays the next one, and missed runs are
    /// not repeated.
    pub(crate) fn every(
        &'static self,
        every: Duration,
        work: Repeated,
    ) -> std::io::Result<TimerId> {
        self.start()?;
        let number = self.new_token();
        let timer = Timer {
            due: Instant::now() + every,
            every,
            work: Arc::new(work),
        };
        locked(&self.queue).timers.insert(number, timer);
        self.wake.notify_all();
        Ok(TimerId {
            pid: std::process::id(),
            number,
        })
    }

    /// Ends a timer. It needs the GIL to drop Python objects. A run that has begun continues.
    pub(crate) fn cancel(&self, timer: TimerId) {
        if timer.pid == std::process::id() {
            let ended = locked(&self.queue).timers.remove(&timer.number);
            drop(ended);
        }
    }

    fn push(&self, item: Item) {
        let mut queue = locked(&self.queue);
        if queue.closed {
            // The interpreter is ending, and dropping a Python object now could crash it.
            std::mem::forget(item);
            return;
        }
        let first = queue.items.is_empty();
        queue.callbacks_due += usize::from(item.is_callback());
        queue.items.push_back(item);
        drop(queue);
        if first {
            self.wake.notify_one();
        }
    }

    /// Starts the thread if it does not run. A constructor calls it and raises its error. Later
    /// calls find it running, and have no caller to report to.
    pub(crate) fn start(&'static self) -> std::io::Result<()> {
        if self.started.load(Ordering::Acquire) {
            return Ok(());
        }
        let _one_at_a_time = locked(&self.starting);
        if self.started.load(Ordering::Acquire) {
            return Ok(());
        }
        thread::Builder::new()
            .name(self.name.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(|| {
                let signals = BlockedSignals::block();
                ON_CALLBACK_THREAD.set(self.name == CALLBACKS);
                self.serve(&signals);
            })?;
        self.started.store(true, Ordering::Release);
        Ok(())
    }

    fn serve(&self, signals: &BlockedSignals) {
        loop {
            let mut queue = locked(&self.queue);
            while queue.with_due_timers(Instant::now()).is_empty() && queue.stopped_by.is_none() {
                queue = self.sleep(queue);
            }
            if queue.stopped_by.is_some() {
                queue.finished = true;
                drop(queue);
                self.wake.notify_all();
                return;
            }
            let items = std::mem::take(&mut queue.items);
            drop(queue);
            let run = || Python::try_attach(|py| self.run_all(py, items));
            let Some(mut left) = signals.lifted(run) else {
                // The interpreter is gone, and its remaining objects must not be touched.
                return;
            };
            if !left.is_empty() {
                let mut queue = locked(&self.queue);
                left.append(&mut queue.items);
                queue.items = left;
            }
        }
    }

    /// Sleeps until there is a new item or a timer is due.
    fn sleep<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let next = queue.timers.values().map(|timer| timer.due).min();
        match next {
            None => self
                .wake
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner),
            Some(due) => {
                let left = due.saturating_duration_since(Instant::now());
                let woken = self.wake.wait_timeout(queue, left);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Runs items. Returns those that are left once the interpreter ends.
    fn run_all(&self, py: Python<'_>, mut items: VecDeque<Item>) -> VecDeque<Item> {
        let mut callbacks_run = 0;
        while !self.stopping.load(Ordering::Acquire)
            && let Some(item) = items.pop_front()
        {
            if item.is_callback() {
                callbacks_run += 1;
            } else {
                // This work may take long, and a wait for callbacks does not include it.
                self.have_run(std::mem::take(&mut callbacks_run));
            }
            self.run_one(py, item);
        }
        self.have_run(callbacks_run);
        items
    }

    fn have_run(&self, callbacks: usize) {
        if callbacks > 0 {
            locked(&self.queue).callbacks_due -= callbacks;
        }
    }

    fn run_one(&self, py: Python<'_>, item: Item) {
        let work = match item {
            Item::Run(work) | Item::Aside(work) => Some(work),
            Item::Completed(token) => self.take(token),
        };
        if let Some(work) = work {
            caught(py, || work(py));
        }
    }

    /// Runs work after all callbacks that are due now. If none is due, or inside a callback, runs
    /// it at once.
    pub(crate) fn after_all(&'static self, py: Python<'_>, work: Work) {
        if self.has_nothing_to_wait_for() {
            work(py);
        } else {
            self.run(work);
        }
    }

    /// Whether no callback is due, or the caller is itself a callback. Work that is not a callback,
    /// such as `stats_cb`, may be running.
    fn has_nothing_to_wait_for(&self) -> bool {
        ON_CALLBACK_THREAD.get() || locked(&self.queue).callbacks_due == 0
    }

    /// Waits until all items that are due now have run. Does nothing inside a callback.
    pub(crate) fn wait_until_run(
        &'static self,
        py: Python<'_>,
        deadline: Option<Instant>,
    ) -> PyResult<()> {
        if self.has_nothing_to_wait_for() {
            return Ok(());
        }
        let reached: Arc<Mutex<(bool, Option<Waker>)>> = Arc::default();
        let mark = Arc::clone(&reached);
        self.run(Box::new(move |_| {
            let mut reached = locked(&mark);
            reached.0 = true;
            if let Some(waker) = reached.1.take() {
                waker.wake();
            }
        }));
        gil::wait(py, deadline, |waker| {
            let mut reached = locked(&reached);
            reached.1 = Some(waker.clone());
            reached.0.then_some(())
        })?;
        Ok(())
    }

    /// Ends the thread after the item that it runs. Called at interpreter exit without the GIL.
    ///
    /// `CPython` (until 3.14) ends other threads where they next take the interpreter's lock. In a
    /// callback there are Rust frames below, which abort the process. So the thread starts nothing
    /// new, and [`Self::run_left`] runs the rest in the thread that ends the interpreter.
    pub(crate) fn stop(&self, timeout: Duration) {
        let mut queue = locked(&self.queue);
        queue.stopped_by = Some(thread::current().id());
        self.stopping.store(true, Ordering::Release);
        self.wake.notify_all();
        if !self.started.load(Ordering::Acquire) {
            queue.finished = true;
            return;
        }
        let end = Instant::now() + timeout;
        while !queue.finished {
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                return;
            };
            queue = self
                .wake
                .wait_timeout(queue, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Runs the remaining items until the time is over. Returns the number of callbacks that will
    /// not run.
    pub(crate) fn run_left(&self, py: Python<'_>, until: Instant) -> usize {
        loop {
            let mut queue = locked(&self.queue);
            let is_over = !queue.finished || Instant::now() >= until;
            let item = if is_over {
                None
            } else {
                queue.items.pop_front()
            };
            let Some(item) = item else {
                queue.closed = true;
                let left = std::mem::take(&mut queue.items);
                let count = callbacks_among(&left);
                drop(queue);
                // Dropping Python objects may run application code.
                std::mem::forget(left);
                return count;
            };
            drop(queue);
            self.run_one(py, item);
        }
    }
}

fn callbacks_among(items: &VecDeque<Item>) -> usize {
    items.iter().filter(|item| item.is_callback()).count()
}
