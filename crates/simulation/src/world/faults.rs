//! What may go wrong between a client and a broker, and how often.

use std::time::Duration;

use thalweg_protocol::ErrorCode;

use crate::random::Random;

/// The faults of a run: chances for each request, in a thousand, and times. If all are zero,
/// nothing goes wrong.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    /// The connection breaks before the broker sees the request.
    pub lose_request: u32,
    /// The broker processes the request, and the connection breaks before the response.
    pub lose_response: u32,
    /// The response is cut off in the middle.
    pub cut_response: u32,
    /// The broker never responds on this connection again.
    pub silence: u32,
    /// The return path is cut: the broker processes this and all later requests of the connection,
    /// and none of its responses arrives.
    pub one_way: u32,
    /// The response is up to `delay_max` late.
    pub delay: u32,
    pub delay_max: Duration,
    /// A node stops about this often, and restarts after up to `stop_max`.
    pub stop_every: Option<Duration>,
    pub stop_max: Duration,
    /// How many in a thousand stops stop all nodes at once. The producer state is then that of a
    /// restart, which remembers only the last batch of each producer.
    pub stop_all: u32,
    /// About this often, several partitions refuse requests with several codes, for up to
    /// `refuse_max`.
    pub refuse_every: Option<Duration>,
    pub refuse_max: Duration,
    /// About this often, an unclean election loses the end of a partition's log.
    pub lose_every: Option<Duration>,
    /// If set, the old leader of such an election keeps its connections, and may lead again before
    /// a client knows. If the new log knows nothing of a producer, that can break the order of its
    /// records.
    pub zombies: bool,
    /// About this often, a topic is deleted, and created again after a while.
    pub recreate_every: Option<Duration>,
}

/// Error codes that the response to a Produce request may have for a partition.
pub(crate) const PRODUCE_REFUSALS: [ErrorCode; 6] = [
    ErrorCode::NOT_LEADER_OR_FOLLOWER,
    ErrorCode::TOPIC_AUTHORIZATION_FAILED,
    ErrorCode::NOT_ENOUGH_REPLICAS,
    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode::MESSAGE_TOO_LARGE,
    ErrorCode::KAFKA_STORAGE_ERROR,
];

/// Error codes that the response to a Fetch request may have for a partition.
pub(crate) const FETCH_REFUSALS: [ErrorCode; 6] = [
    ErrorCode::TOPIC_AUTHORIZATION_FAILED,
    ErrorCode::NOT_LEADER_OR_FOLLOWER,
    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode::FENCED_LEADER_EPOCH,
    ErrorCode::KAFKA_STORAGE_ERROR,
    ErrorCode::UNKNOWN_SERVER_ERROR,
];

impl FaultPlan {
    /// Returns a plan with a little of most faults, for the soak tests.
    pub fn stormy() -> Self {
        Self {
            lose_request: 10,
            lose_response: 20,
            cut_response: 10,
            silence: 2,
            one_way: 2,
            delay: 50,
            delay_max: Duration::from_millis(500),
            stop_every: Some(Duration::from_secs(5)),
            stop_max: Duration::from_secs(2),
            ..Self::default()
        }
    }

    /// Draws the fate of one request.
    pub(crate) fn draw(&self, random: &mut Random) -> Fate {
        // Always draws one number for each fault, so that a changed chance does not shift other
        // draws.
        let [
            lose_request,
            lose_response,
            cut_response,
            silence,
            one_way,
            delay,
        ] = [
            self.lose_request,
            self.lose_response,
            self.cut_response,
            self.silence,
            self.one_way,
            self.delay,
        ]
        .map(|chance| random.happens(chance));
        let by = Duration::from_micros(random.below(self.delay_max.as_micros() as u64 + 1));
        match () {
            () if lose_request => Fate::LoseRequest,
            () if lose_response => Fate::LoseResponse,
            () if cut_response => Fate::CutResponse,
            () if silence => Fate::Silence,
            () if one_way => Fate::OneWay,
            () if delay => Fate::Delay(by),
            () => Fate::Respond,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Respond,
    LoseRequest,
    LoseResponse,
    CutResponse,
    Silence,
    OneWay,
    Delay(Duration),
}
