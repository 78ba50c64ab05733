//! The actor and a role: turns, deadlines, jobs, writes without responses, closing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_cluster::{
    Body, Cluster, Job, Notifier, Outgoing, Purpose, RequestError, RequestId, ResponseBody, Role,
};
use thalweg_network::Client;
use thalweg_protocol::ApiKey;

use crate::broker::{Broker, Reaction, usual};
use crate::support::{blocking, finished};

/// What happened to a role, in order.
type Diary = Arc<Mutex<Vec<String>>>;

/// Sends what its queue contains to node 1 as segments, after a job has doubled it.
struct Echo {
    queue: Arc<Mutex<Vec<Vec<Bytes>>>>,
    jobs: Vec<Double>,
    ready: Vec<Body>,
    flying: usize,
    expects_response: bool,
    tick_at: Option<Instant>,
    /// How long its next turn takes.
    dawdle: Duration,
    diary: Diary,
}

struct Double(Vec<Bytes>);

impl Job for Double {
    type Output = Body;
    fn run(self) -> Body {
        assert!(!self.0.is_empty(), "nothing to double");
        let mut body = Body::new(b"head".to_vec());
        for piece in self.0 {
            body.push(piece.clone());
            body.push(piece);
        }
        body
    }
}

impl Role for Echo {
    type Job = Double;

    const LOGGER: &'static str = "network";

    fn poll_warning(&mut self) -> Option<String> {
        None
    }

    fn poll(&mut self, cluster: &mut Cluster, now: Instant, _: i64) {
        if self.tick_at.is_some_and(|at| now >= at) {
            self.tick_at = None;
            self.note("tick");
        }
        let queued = std::mem::take(&mut *self.queue.lock().expect("never poisoned"));
        self.jobs.extend(queued.into_iter().map(Double));
        while !self.ready.is_empty() && cluster.is_ready(1, Purpose::Produce, now) {
            let outgoing = Outgoing {
                api_key: ApiKey::HEARTBEAT,
                version: 0,
                body: self.ready.remove(0),
                timeout: Duration::from_secs(120),
                expects_response: self.expects_response,
            };
            cluster.send(1, Purpose::Produce, outgoing, now);
            self.flying += 1;
        }
        std::thread::sleep(std::mem::take(&mut self.dawdle));
    }

    fn on_response(
        &mut self,
        _: RequestId,
        result: Result<ResponseBody, RequestError>,
        _: &mut Cluster,
        _: Instant,
        _: i64,
    ) {
        self.flying -= 1;
        self.note(if result.is_ok() { "response" } else { "error" });
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        // As in the cores: what was due until `now` is done.
        self.tick_at.filter(|&at| at > now)
    }

    fn poll_job(&mut self) -> Option<Double> {
        self.jobs.pop()
    }

    fn job_done(&mut self, output: Body, _: &mut Cluster, _: Instant, _: i64) {
        self.note("job");
        self.ready.push(output);
    }

    fn close(&mut self, _: Instant, _: &mut Cluster, _: Instant) {
        self.note("close");
    }

    fn is_closed(&self) -> bool {
        self.flying == 0 && self.ready.is_empty() && self.jobs.is_empty()
    }

    fn abort(&mut self, _: Instant) {
        self.note("abort");
    }
}

impl Echo {
    fn note(&self, what: &str) {
        self.diary
            .lock()
            .expect("never poisoned")
            .push(what.to_owned());
    }
}

struct Bench {
    client: Client<Echo>,
    queue: Arc<Mutex<Vec<Vec<Bytes>>>>,
    notifier: Arc<Notifier>,
    diary: Diary,
}

fn bench(broker: &Broker, expects_response: bool, tick_in: Option<Duration>) -> Bench {
    let parts = broker.parts(&broker.config());
    let notifier = Arc::clone(&parts.notifier);
    let (queue, diary) = (Arc::default(), Diary::default());
    let role = Echo {
        queue: Arc::clone(&queue),
        jobs: Vec::new(),
        ready: Vec::new(),
        flying: 0,
        expects_response,
        dawdle: Duration::ZERO,
        tick_at: tick_in.map(|wait| tokio::time::Instant::now().into_std() + wait),
        diary: Arc::clone(&diary),
    };
    Bench {
        client: Client::start_here(parts, role),
        queue,
        notifier,
        diary,
    }
}

impl Bench {
    fn send(&self, pieces: Vec<Bytes>) {
        self.queue.lock().expect("never poisoned").push(pieces);
        self.notifier.notify();
    }

    fn diary(&self) -> Vec<String> {
        self.diary.lock().expect("never poisoned").clone()
    }
}

pub(crate) async fn until(condition: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it did not happen within ten (virtual) seconds");
}

#[tokio::test(start_paused = true)]
async fn a_notified_role_sends_its_segments_in_their_order() {
    let broker = Broker::usual();
    let bench = bench(&broker, true, None);
    // More pieces than one system call takes, and more bytes than the pipe holds.
    let pieces: Vec<Bytes> = (0..500_u32)
        .map(|n| Bytes::from(vec![n as u8; 400]))
        .collect();
    let mut expected = b"head".to_vec();
    for piece in &pieces {
        expected.extend_from_slice(&piece.repeat(2));
    }
    bench.send(pieces);
    until(|| bench.diary().contains(&"response".to_owned())).await;
    assert_eq!(bench.diary(), ["job", "response"]);
    assert_eq!(broker.got(ApiKey::HEARTBEAT)[0].body, expected);
}

#[tokio::test(start_paused = true)]
async fn buffers_come_back_when_they_are_written() {
    struct Owned(Arc<AtomicUsize>);
    impl AsRef<[u8]> for Owned {
        fn as_ref(&self) -> &[u8] {
            b"a batch"
        }
    }
    impl Drop for Owned {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let broker = Broker::usual();
    let bench = bench(&broker, true, None);
    let returned = Arc::new(AtomicUsize::new(0));
    bench.send(vec![Bytes::from_owner(Owned(Arc::clone(&returned)))]);
    until(|| bench.diary().contains(&"response".to_owned())).await;
    assert_eq!(
        returned.load(Ordering::SeqCst),
        1,
        "once, and not before it was written"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_response_is_done_when_written() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => Reaction::Silence,
        _ => Reaction::Usual,
    });
    let bench = bench(&broker, false, None);
    bench.send(vec![Bytes::from(vec![1; 1_000_000])]);
    until(|| bench.diary().contains(&"response".to_owned())).await;
    until(|| broker.got(ApiKey::HEARTBEAT).len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_role_is_polled_at_its_deadline() {
    let broker = Broker::usual();
    let bench = bench(&broker, true, Some(Duration::from_secs(3)));
    tokio::time::sleep(Duration::from_millis(2_990)).await;
    assert!(bench.diary().is_empty());
    tokio::time::sleep(Duration::from_millis(12)).await;
    assert_eq!(bench.diary(), ["tick"]);
}

/// Runs in real time, because virtual time stands still during a turn. This was a bug: a thread
/// that had to wait for a CPU core during a turn left a retry undone for up to a minute.
#[tokio::test]
async fn what_falls_due_during_a_turn_is_done_after_it() {
    let broker = Broker::usual();
    let bench = bench(&broker, true, None);
    let bootstrapped = || bench.client.call(|_, cluster, _| cluster.is_bootstrapped());
    while !bootstrapped().await.expect("the client is open") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let slow_turn = bench.client.call(|role, _, now| {
        role.tick_at = Some(now + Duration::from_millis(20));
        role.dawdle = Duration::from_millis(60);
    });
    assert!(slow_turn.await.is_ok());
    until(|| bench.diary() == ["tick"]).await;
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_role() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => Reaction::Later(Duration::from_secs(2), Box::new(usual(got))),
        _ => Reaction::Usual,
    });
    let bench = bench(&broker, true, None);
    bench.send(vec![Bytes::from_static(b"x")]);
    until(|| broker.got(ApiKey::HEARTBEAT).len() == 1).await;
    let start = tokio::time::Instant::now();
    let close = bench.client.view().close(Some(Duration::from_secs(60)));
    finished(close).await.expect("the role finishes");
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "it ends when the role is done"
    );
    assert_eq!(bench.diary(), ["job", "close", "response", "abort"]);
}

#[tokio::test(start_paused = true)]
async fn closing_ends_at_its_deadline() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => Reaction::Silence,
        _ => Reaction::Usual,
    });
    let bench = bench(&broker, true, None);
    bench.send(vec![Bytes::from_static(b"x")]);
    until(|| broker.got(ApiKey::HEARTBEAT).len() == 1).await;
    let close = bench.client.view().close(Some(Duration::from_secs(1)));
    finished(close).await.expect("it closes all the same");
    assert_eq!(bench.diary(), ["job", "close", "error", "abort"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_reaches_the_role_on_its_own_thread() {
    let broker = Broker::usual();
    let bench = bench(&broker, true, None);
    let told = bench.client.call(|role, cluster, _| {
        role.note("called");
        cluster.is_bootstrapped()
    });
    assert!(told.await.is_ok());
    assert_eq!(bench.diary(), ["called"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_panics_ends_its_client_with_the_reason() {
    let broker = Broker::usual();
    let bench = bench(&broker, true, None);
    bench.send(Vec::new());
    until(|| bench.client.view().check().is_err()).await;
    let error = bench.client.view().check().expect_err("it has failed");
    assert!(error.to_string().contains("nothing to double"), "{error}");
    assert_eq!(bench.diary(), ["abort"]);
}

#[tokio::test]
async fn a_close_that_waits_hears_of_a_panic() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => Reaction::Silence,
        _ => Reaction::Usual,
    });
    let bench = bench(&broker, true, None);
    bench.send(vec![Bytes::from_static(b"x")]);
    until(|| broker.got(ApiKey::HEARTBEAT).len() == 1).await;
    let far = Instant::now() + Duration::from_secs(60);
    let close = bench.client.view().close(Some(Duration::from_secs(60)));
    let closing = tokio::task::spawn_blocking(move || blocking(close));
    until(|| bench.diary().contains(&"close".to_owned())).await;
    drop(bench.client.call(|_, _, _| panic!("a bug of ours")));
    let closed = closing.await.expect("it returns");
    let error = closed.expect_err("its work was not finished");
    assert!(error.to_string().contains("a bug of ours"), "{error}");
    assert!(Instant::now() < far);
}
