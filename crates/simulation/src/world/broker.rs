//! The core of the embedded broker on an in-memory network, with a fate for each request.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_broker::options::BrokerOptions;
use thalweg_broker::{Connection, Core, NodeAddress, Outcome, Response, Wait};
use thalweg_network::WallClock;
use thalweg_network::transport::{MemoryListener, MemoryNetwork};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::sleep_until;

use crate::random::Random;
use crate::world::faults::{Fate, FaultPlan};
use crate::world::sessions::{Login, SessionCounts, Taken, with_sasl};

const PORT: u16 = 9092;

/// Limit of the requests in a virtual second. No world needs nearly as many.
const REQUESTS_MAX: u32 = 20_000;

/// All nodes of a cluster. Clones are the same cluster.
#[derive(Clone)]
pub(crate) struct Broker {
    inner: Arc<Mutex<Inner>>,
    network: MemoryNetwork,
    clock: WallClock,
}

struct Inner {
    core: Core,
    faults: FaultPlan,
    random: Random,
    /// Number of requests that a fault changed, and of stopped nodes.
    disturbances: u64,
    /// How long a SASL session lasts. None: no SASL.
    session: Option<Duration>,
    session_counts: SessionCounts,
    running: BTreeMap<i32, Vec<JoinHandle<()>>>,
    /// The start of the current virtual second, and the requests in it so far.
    second: (Instant, u32),
    /// The maximum number of requests in a virtual second.
    busiest_second: u32,
}

pub(crate) fn host(node: i32) -> String {
    format!("node-{node}")
}

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Broker {
    pub(crate) fn start(
        nodes: i32,
        options: BrokerOptions,
        network: MemoryNetwork,
        clock: WallClock,
        mut random: Random,
    ) -> Self {
        let addresses: Vec<NodeAddress> = (1..=nodes)
            .map(|node| NodeAddress {
                host: host(node),
                port: PORT,
            })
            .collect();
        let core = Core::new(&addresses, options, random.draw(), now());
        let (faults, running) = (FaultPlan::default(), BTreeMap::new());
        let inner = Arc::new(Mutex::new(Inner {
            core,
            faults,
            random,
            disturbances: 0,
            session: None,
            session_counts: SessionCounts::default(),
            running,
            second: (now(), 0),
            busiest_second: 0,
        }));
        let broker = Self {
            inner,
            network,
            clock,
        };
        for node in 1..=nodes {
            broker.listen(node);
        }
        tokio::spawn(broker.clone().tick());
        broker
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn disturbances(&self) -> u64 {
        self.lock().disturbances
    }

    /// From now on, clients must log in, and again each time this has passed.
    pub(crate) fn end_sessions_after(&self, lifetime: Duration) {
        self.lock().session = Some(lifetime);
    }

    pub(crate) fn has_sessions(&self) -> bool {
        self.lock().session.is_some()
    }

    pub(crate) fn session_counts(&self) -> SessionCounts {
        self.lock().session_counts
    }

    pub(crate) fn busiest_second(&self) -> u32 {
        self.lock().busiest_second
    }

    pub(crate) fn was_flooded(&self) -> bool {
        self.busiest_second() > REQUESTS_MAX
    }

    /// Runs a function on the core itself.
    pub(crate) fn with_core<T>(&self, run: impl FnOnce(&mut Core) -> T) -> T {
        run(&mut self.lock().core)
    }

    pub(crate) fn end_offset(&self, topic: &str, partition: i32) -> i64 {
        self.lock().core.end_offset(topic, partition).unwrap_or(0)
    }

    /// Counts a request. Returns true if there are too many: virtual time advances only while
    /// clients wait, so such a run would never end.
    fn is_flooded(&self) -> bool {
        let (mut inner, now) = (self.lock(), now());
        if now.duration_since(inner.second.0) >= Duration::from_secs(1) {
            inner.second = (now, 0);
        }
        inner.second.1 += 1;
        inner.busiest_second = inner.busiest_second.max(inner.second.1);
        inner.second.1 > REQUESTS_MAX
    }

    pub(crate) fn set_faults(&self, faults: FaultPlan) {
        self.lock().faults = faults;
    }

    /// Stops a node: ends its listener and connections. Its partitions get other leaders.
    pub(crate) fn stop_node(&self, node: i32) {
        let mut inner = self.lock();
        inner.disturbances += 1;
        for task in inner.running.remove(&node).unwrap_or_default() {
            task.abort();
        }
        inner
            .core
            .stop_node(node, now())
            .expect("the world only names nodes that it made");
    }

    pub(crate) fn start_node(&self, node: i32) {
        self.lock()
            .core
            .start_node(node, now())
            .expect("the world only names nodes that it made");
        self.listen(node);
    }

    /// Runs what is due by time alone, such as aborting transactions that are open for too long.
    async fn tick(self) {
        loop {
            let mut sleep = None;
            poll_fn(|cx| {
                let deadline = self.lock().core.poll_deadline(cx.waker());
                let alarm = sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline.into())));
                if alarm.deadline() != deadline.into() {
                    alarm.as_mut().reset(deadline.into());
                }
                alarm.as_mut().poll(cx)
            })
            .await;
            let now = now();
            self.lock().core.tick(now, self.clock.now_ms(now));
        }
    }

    fn listen(&self, node: i32) {
        let listener = self.network.listen(&host(node), PORT);
        let task = tokio::spawn(self.clone().accept(node, listener));
        self.lock().running.insert(node, vec![task]);
    }

    async fn accept(self, node: i32, mut listener: MemoryListener) {
        while let Some(stream) = listener.accept().await {
            let task = tokio::spawn(self.clone().serve(node, stream));
            if let Some(tasks) = self.lock().running.get_mut(&node) {
                tasks.retain(|task| !task.is_finished());
                tasks.push(task);
            }
        }
    }

    /// Serves one connection, one request after the other, as Kafka does.
    async fn serve(self, node: i32, mut stream: DuplexStream) {
        let mut connection = self.lock().core.connect(node, "10.0.0.1".to_owned());
        let mut login = self.lock().session.map(Login::new);
        let mut is_cut = false;
        while let Ok(frame) = read_frame(&mut stream).await {
            if self.is_flooded() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            let fate = {
                let mut inner = self.lock();
                let Inner {
                    faults,
                    random,
                    disturbances,
                    ..
                } = &mut *inner;
                let fate = faults.draw(random);
                *disturbances += u64::from(fate != Fate::Respond);
                fate
            };
            if fate == Fate::LoseRequest {
                return;
            }
            let outcome = match self.log_in(login.as_mut(), &frame) {
                Taken::Late => return,
                Taken::Response(response) => {
                    if is_pipelined(&mut stream).await {
                        self.lock().session_counts.pipelined += 1;
                    }
                    Outcome::Response(whole(response))
                }
                Taken::ForBroker => self.ask_core(&mut connection, frame, login.is_some()).await,
            };
            is_cut |= fate == Fate::OneWay;
            match outcome {
                Outcome::Response(_) if is_cut => {}
                Outcome::Response(response) => {
                    if !deliver(&mut stream, response, fate).await {
                        return;
                    }
                }
                Outcome::Nothing => {}
                Outcome::Mute => return silence(stream).await,
                Outcome::Close | Outcome::Wait(_) => return,
            }
            if fate == Fate::Silence {
                return silence(stream).await;
            }
        }
    }

    fn log_in(&self, login: Option<&mut Login>, frame: &Bytes) -> Taken {
        match login {
            None => Taken::ForBroker,
            Some(login) => login.take(frame, &mut self.lock().session_counts, now()),
        }
    }

    async fn ask_core(
        &self,
        connection: &mut Connection,
        frame: Bytes,
        offers_sasl: bool,
    ) -> Outcome {
        let (request, now) = (frame.clone(), now());
        let now_ms = self.clock.now_ms(now);
        let outcome = self.lock().core.handle(connection, frame, now, now_ms);
        match outcome {
            Outcome::Wait(wait) => self.wait(wait).await,
            Outcome::Response(response) if offers_sasl => {
                let pieces = Bytes::from(response.pieces.concat());
                Outcome::Response(Response {
                    pieces: vec![with_sasl(&request, &pieces)],
                    ..response
                })
            }
            other => other,
        }
    }

    async fn wait(&self, mut wait: Wait) -> Outcome {
        let deadline = wait.deadline();
        loop {
            let mut alarm = std::pin::pin!(async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            });
            let response = poll_fn(|cx| {
                if let Some(outcome) = self.lock().core.poll_wait(&mut wait, cx.waker(), now()) {
                    return Poll::Ready(Some(outcome));
                }
                alarm.as_mut().poll(cx).map(|()| None)
            });
            if let Some(outcome) = response.await {
                return outcome;
            }
            // The deadline is over: the next poll returns what there is.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn whole(response: Bytes) -> Response {
    Response {
        own_bytes: response.len(),
        pieces: vec![response],
        not_before: None,
        is_last: false,
        mute_until: None,
    }
}

/// Whether the client has sent more, although it has no response yet. The client gets the time to
/// do so.
async fn is_pipelined(stream: &mut DuplexStream) -> bool {
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut byte = [0];
    let read = tokio::time::timeout(Duration::ZERO, stream.read(&mut byte)).await;
    read.is_ok_and(|read| read.is_ok_and(|count| count > 0))
}

/// Writes a response, or what its fate leaves of it. Returns false to close the connection.
async fn deliver(stream: &mut DuplexStream, response: Response, fate: Fate) -> bool {
    if let Some(at) = response.not_before {
        tokio::time::sleep_until(at.into()).await;
    }
    let bytes = response.pieces.concat();
    let whole = match fate {
        Fate::LoseResponse | Fate::Silence => return fate == Fate::Silence,
        Fate::CutResponse => &bytes[..bytes.len() / 2],
        Fate::Delay(by) => {
            tokio::time::sleep(by).await;
            &bytes
        }
        _ => &bytes,
    };
    stream.write_all(whole).await.is_ok() && fate != Fate::CutResponse
}

/// Reads requests without responding, until the client gives up.
async fn silence(mut stream: DuplexStream) {
    while read_frame(&mut stream).await.is_ok() {}
}

async fn read_frame(stream: &mut DuplexStream) -> io::Result<Bytes> {
    let length = usize::try_from(stream.read_i32().await?).map_err(io::Error::other)?;
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await?;
    Ok(Bytes::from(frame))
}
