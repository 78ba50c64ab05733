//! How application threads wait: wakes, deadlines, signals.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_network::BlockedSignals;
use thalweg_network::wait::{Blocked, Parker, ThreadWait, Wait, block_until};

#[expect(
    clippy::unnecessary_wraps,
    reason = "deadlines are optional wherever it is used"
)]
fn soon(ms: u64) -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(ms))
}

#[test]
fn a_wake_before_the_park_is_not_lost() {
    let parker = Parker::current();
    parker.waker().wake_by_ref();
    assert_eq!(parker.wait(soon(10_000)), Wait::Notified);
    assert_eq!(parker.wait(soon(5)), Wait::TimedOut, "and it counts once");
}

#[test]
fn another_thread_wakes_a_parked_one() {
    let parker = Parker::current();
    let waker = parker.waker().clone();
    let other = thread::spawn(move || waker.wake());
    assert_eq!(parker.wait(soon(60_000)), Wait::Notified);
    other.join().expect("the other thread only wakes");
}

#[test]
fn ten_thousand_handovers_lose_none() {
    let count = Arc::new(AtomicUsize::new(0));
    let parker = Parker::current();
    let (waker, seen) = (parker.waker().clone(), Arc::clone(&count));
    let other = thread::spawn(move || {
        for _ in 0..10_000 {
            seen.fetch_add(1, Ordering::SeqCst);
            waker.wake_by_ref();
            if seen.load(Ordering::SeqCst).is_multiple_of(64) {
                thread::yield_now();
            }
        }
    });
    let got = block_until(soon(30_000), &mut || false, |_| {
        (count.load(Ordering::SeqCst) == 10_000).then_some(())
    });
    assert_eq!(got, Ok(()));
    other.join().expect("the other thread only wakes");
}

#[test]
fn a_deadline_ends_a_wait() {
    let start = Instant::now();
    let outcome: Result<(), _> = block_until(soon(60), &mut || false, |_| None);
    assert_eq!(outcome, Err(Blocked::TimedOut));
    let waited = start.elapsed();
    assert!(
        waited >= Duration::from_millis(60) && waited < Duration::from_secs(30),
        "{waited:?}"
    );
}

extern "C" fn nothing(_: libc::c_int) {}

/// Sends SIGUSR2 to a thread after a pause. Its handler only interrupts.
fn signal_later(to: libc::pthread_t, pause: Duration) -> thread::JoinHandle<()> {
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the handler does nothing. The thread outlives the helper, because it joins it.
    unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
    thread::spawn(move || {
        thread::sleep(pause);
        // SAFETY: as above.
        unsafe { libc::pthread_kill(to, libc::SIGUSR2) };
    })
}

#[test]
fn a_signal_ends_a_wait_if_the_caller_says_so() {
    for pause_ms in [2, 60] {
        // SAFETY: no preconditions.
        let me = unsafe { libc::pthread_self() };
        let start = Instant::now();
        let sender = signal_later(me, Duration::from_millis(pause_ms));
        let asked = AtomicBool::new(false);
        let mut interrupted = || {
            start.elapsed() >= Duration::from_millis(pause_ms) && {
                asked.store(true, Ordering::SeqCst);
                true
            }
        };
        let outcome: Result<(), _> = block_until(soon(60_000), &mut interrupted, |_| None);
        assert_eq!(outcome, Err(Blocked::Interrupted));
        assert!(asked.load(Ordering::SeqCst));
        assert!(start.elapsed() < Duration::from_secs(30));
        sender.join().expect("the sender only signals");
    }
}

#[test]
fn a_signal_that_concerns_nobody_does_not_end_a_wait() {
    // SAFETY: no preconditions.
    let me = unsafe { libc::pthread_self() };
    let sender = signal_later(me, Duration::from_millis(40));
    let start = Instant::now();
    let outcome: Result<(), _> = block_until(soon(150), &mut || false, |_| None);
    assert_eq!(outcome, Err(Blocked::TimedOut));
    assert!(start.elapsed() >= Duration::from_millis(150));
    sender.join().expect("the sender only signals");
}

#[test]
fn what_a_signal_raised_is_not_asked_for_twice() {
    let mut raised = true;
    // Like Python's own check, which reports a signal once.
    let mut interrupted = || std::mem::take(&mut raised);
    let outcome: Result<(), _> = block_until(soon(60_000), &mut interrupted, |_| None);
    assert_eq!(outcome, Err(Blocked::Interrupted));
}

#[test]
fn a_long_wait_looks_only_where_a_signal_handler_may_have_run() {
    let (mut looks, mut asked) = (0, 0);
    let mut interrupted = || {
        asked += 1;
        false
    };
    let outcome: Result<(), _> = block_until(soon(300), &mut interrupted, |_| {
        looks += 1;
        None
    });
    assert_eq!(outcome, Err(Blocked::TimedOut));
    assert!(looks <= asked + 2, "{looks} looks, {asked} questions");
    assert!(asked <= 5, "{asked} questions in 300 ms");
}

#[test]
fn many_short_sleeps_of_a_wait_ask_as_rarely_as_a_long_one() {
    let mut wait = ThreadWait::begin();
    let (mut sleeps, mut asked) = (0, 0);
    let start = Instant::now();
    // After a pause of this machine, the first question may come later.
    let goes_on = |asked| {
        let elapsed = start.elapsed();
        elapsed < Duration::from_millis(300) || (asked == 0 && elapsed < Duration::from_secs(30))
    };
    while goes_on(asked) {
        sleeps += 1;
        let interrupted = wait.sleep(soon(2), &mut || {
            asked += 1;
            false
        });
        assert!(!interrupted);
    }
    assert!(
        (1..=5).contains(&asked),
        "{asked} questions in {sleeps} sleeps"
    );
}

#[test]
fn a_signal_handler_that_waits_takes_no_wake_up_from_the_wait_that_it_interrupts() {
    let news = AtomicBool::new(false);
    let start = Instant::now();
    let mut handled = false;
    let outcome = {
        let mut interrupted = || {
            if !std::mem::replace(&mut handled, true) {
                // The news for the outer wait comes while the handler waits on the same parker.
                news.store(true, Ordering::SeqCst);
                Parker::current().waker().wake_by_ref();
                let inner = block_until(soon(50), &mut || false, |_| None::<()>);
                assert_eq!(inner, Err(Blocked::TimedOut));
            }
            false
        };
        block_until(soon(60_000), &mut interrupted, |_| {
            news.load(Ordering::SeqCst).then_some(())
        })
    };
    assert_eq!(outcome, Ok(()));
    assert!(start.elapsed() < Duration::from_secs(30));
}

/// The signals that this thread blocks now, as bits.
fn blocked() -> u64 {
    let mut mask = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: without a new set the call only writes the old one.
    let mask = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
        mask.assume_init()
    };
    // SAFETY: an initialised set, and valid signal numbers.
    (1..32).fold(0, |bits, n| {
        bits | u64::from(unsafe { libc::sigismember(&raw const mask, n) } == 1) << n
    })
}

/// A handler may start a process, which inherits the mask.
#[test]
fn handlers_run_with_the_threads_own_signal_mask() {
    let own = blocked();
    let masks = RefCell::new(Vec::new());
    let mut interrupted = || {
        masks.borrow_mut().push(blocked());
        false
    };
    let outcome = block_until(soon(60_000), &mut interrupted, |_| {
        (masks.borrow().len() == 2).then_some(())
    });
    assert_eq!(outcome, Ok(()), "a waiting thread is asked now and then");
    let masks = masks.into_inner();
    assert!(
        masks.iter().all(|mask| *mask == own),
        "{masks:x?}, not {own:x}"
    );
}

#[test]
fn foreign_code_runs_with_the_mask_from_before() {
    let own = blocked();
    let signals = BlockedSignals::block();
    let all = blocked();
    assert_ne!(all, own);
    assert_eq!(signals.lifted(blocked), own);
    assert_eq!(blocked(), all);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        signals.lifted(|| panic!("planned"));
    }));
    assert!(panicked.is_err());
    assert_eq!(blocked(), all, "after a panic, too");
    drop(signals);
    assert_eq!(blocked(), own);
}
