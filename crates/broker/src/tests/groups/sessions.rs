use super::*;
use crate::groups::sessions::{Sessions, Who};

const TIMEOUT: Duration = Duration::from_secs(10);

fn who(member: &str) -> Who {
    ("g".into(), member.into())
}

#[test]
fn a_session_goes_on_until_its_timeout_changes() {
    let (mut sessions, start) = (Sessions::default(), Instant::now());
    sessions.set(&who("m"), Some(TIMEOUT), start);
    sessions.set(&who("m"), Some(TIMEOUT), start + TIMEOUT / 2);
    assert_eq!(sessions.next_deadline(), Some(start + TIMEOUT));
    sessions.set(&who("m"), Some(TIMEOUT * 2), start + TIMEOUT / 2);
    assert_eq!(
        sessions.next_deadline(),
        Some(start + TIMEOUT / 2 + TIMEOUT * 2)
    );
    sessions.set(&who("m"), None, start);
    assert_eq!(sessions.next_deadline(), None);
}

#[test]
fn time_runs_again_when_the_last_request_is_answered() {
    let (mut sessions, start) = (Sessions::default(), Instant::now());
    sessions.set(&who("m"), Some(TIMEOUT), start);
    assert!(sessions.hold(&who("m"), start) && sessions.hold(&who("m"), start));
    sessions.release(&who("m"), true, start + TIMEOUT * 2);
    assert_eq!(sessions.next_deadline(), None);
    sessions.release(&who("m"), true, start + TIMEOUT * 3);
    assert!(sessions.due(start + TIMEOUT * 3).is_empty());
    assert_eq!(sessions.due(start + TIMEOUT * 4), [who("m")]);
    assert!(!sessions.hold(&who("stranger"), start));
}

#[test]
fn an_ended_session_leaves_nothing_behind() {
    let (mut sessions, start) = (Sessions::default(), Instant::now());
    sessions.set(&who("m"), Some(TIMEOUT), start);
    sessions.end(&who("m"));
    sessions.touch(&who("m"), start);
    assert_eq!(sessions.next_deadline(), None);
    assert!(!sessions.hold(&who("m"), start));
}

#[test]
fn a_refused_request_leaves_the_time_that_was_left() {
    let (mut sessions, start) = (Sessions::default(), Instant::now());
    sessions.set(&who("m"), Some(TIMEOUT), start);
    assert!(sessions.hold(&who("m"), start + TIMEOUT / 2));
    assert_eq!(sessions.next_deadline(), None);
    sessions.release(&who("m"), false, start + TIMEOUT * 2);
    assert_eq!(
        sessions.next_deadline(),
        Some(start + TIMEOUT * 2 + TIMEOUT / 2)
    );
    // An accepted request counts, even if a refused one gets its response after it.
    assert!(sessions.hold(&who("m"), start + TIMEOUT * 2));
    assert!(sessions.hold(&who("m"), start + TIMEOUT * 2));
    sessions.release(&who("m"), true, start + TIMEOUT * 2);
    sessions.release(&who("m"), false, start + TIMEOUT * 3);
    assert_eq!(sessions.next_deadline(), Some(start + TIMEOUT * 4));
}
