//! Transactional producers that work, die, and are replaced.

use std::time::Duration;

use thalweg_network::producer::ProducerClient;
use thalweg_network::{ClientConfig, ClientError};
use thalweg_producer::{ProducerConfig, ProducerError};

use crate::history::atomicity::{Broken, Ending, Ledger, TransactionId};
use crate::random::Random;
use crate::scenarios::clients::{RUN_MAX, Topics, append, close, done};
use crate::scenarios::group_offset;
use crate::scenarios::transactional::TransactionalScenario;
use crate::world::World;

/// A producer that has its producer id.
struct Writer {
    client: ProducerClient,
    topics: Topics,
}

/// The producer has failed or shall not be used any more.
struct Gone;

/// How a transaction shall end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    Commit,
    Abort,
    /// The producer dies before it commits or aborts.
    Die,
    /// The producer dies while it commits.
    DieCommitting,
    /// A successor fences the producer, which does not know that and continues.
    Outlive,
}

/// The producers of one run, one after the other, and what they did.
pub(crate) struct Writers<'a> {
    scenario: &'a TransactionalScenario,
    world: &'a World,
    config: ClientConfig,
    random: Random,
    ledger: Ledger,
    producers: u64,
}

impl<'a> Writers<'a> {
    pub(crate) fn new(
        scenario: &'a TransactionalScenario,
        world: &'a World,
        config: ClientConfig,
        random: Random,
    ) -> Self {
        Self {
            scenario,
            world,
            config,
            random,
            ledger: Ledger::default(),
            producers: 0,
        }
    }

    /// Returns what was done, and the number of producers.
    pub(crate) fn finish(self) -> (Ledger, u64) {
        (self.ledger, self.producers)
    }

    /// Runs all transactions of the scenario.
    pub(crate) async fn write(&mut self) {
        let mut writer = self.successor().await;
        for _ in 0..self.scenario.transactions {
            let plan = self.plan();
            if plan == Plan::Outlive {
                writer = self.outlive(writer).await;
            } else if self.transact(&writer, plan).await.is_err() {
                drop(writer);
                writer = self.successor().await;
            }
        }
        // A last successor resolves the last transaction, however it ended.
        drop(writer);
        let last = self.successor().await;
        close(last.client.view()).await;
    }

    fn plan(&mut self) -> Plan {
        if self.random.below(1000) < self.scenario.deaths {
            let ends = [Plan::Die, Plan::DieCommitting, Plan::Outlive];
            return ends[self.random.below(3) as usize];
        }
        if self.random.happens(200) {
            Plan::Abort
        } else {
            Plan::Commit
        }
    }

    /// Starts a new producer that takes over and resolves how the last transaction ended.
    async fn successor(&mut self) -> Writer {
        loop {
            let writer = self.started().await;
            if done(writer.client.init_transactions(RUN_MAX)).await.is_ok() {
                let offset = group_offset::committed(&writer.client).await;
                self.ledger.resolve(offset);
                return writer;
            }
        }
    }

    async fn started(&mut self) -> Writer {
        self.producers += 1;
        let config = ProducerConfig {
            seed: self.random.draw(),
            transactional_id: Some("simulated".to_owned()),
            ..self.scenario.producer.clone()
        };
        let client = self.world.producer(&self.config, config);
        let topics = Topics::known(&client, self.scenario.lanes()).await;
        Writer { client, topics }
    }

    async fn transact(&mut self, writer: &Writer, plan: Plan) -> Result<(), Gone> {
        let transaction = self.ledger.begin();
        if done(writer.client.begin_transaction(RUN_MAX))
            .await
            .is_err()
        {
            self.ledger.end(transaction, Ending::Aborted);
            return Err(Gone);
        }
        let is_whole = self.fill(writer, transaction).await;
        if plan == Plan::Die {
            self.ledger.end(transaction, Ending::Aborted);
            return Err(Gone);
        }
        if is_whole && plan != Plan::Abort {
            let ending = self.commit(writer, plan).await;
            self.ledger.end(transaction, ending);
            match ending {
                Ending::Committed if plan == Plan::Commit => return Ok(()),
                Ending::Aborted => {}
                Ending::Committed | Ending::Unknown => return Err(Gone),
            }
        }
        self.ledger.end(transaction, Ending::Aborted);
        let aborted = done(writer.client.abort_transaction(RUN_MAX)).await;
        aborted.map_err(|_| Gone)
    }

    /// Sends records, then the offset. Returns false if any of them was refused.
    async fn fill(&mut self, writer: &Writer, transaction: TransactionId) -> bool {
        let count = 1 + self.random.below(self.scenario.records_max);
        let per_transaction = self.scenario.takes.as_micros() as u64 / self.scenario.transactions;
        for _ in 0..count {
            let partition = self.random.below(self.scenario.lanes().count() as u64) as i32;
            let record = self.ledger.name(partition);
            let appended = append(self.world, &writer.client, &writer.topics, record).await;
            if appended.is_none() {
                return false;
            }
            self.ledger.add(transaction, record);
            let pause = self.random.below(2 * per_transaction / count + 1);
            tokio::time::sleep(Duration::from_micros(pause)).await;
        }
        let call = writer.client.send_offsets_to_transaction(
            group_offset::group(),
            group_offset::offsets(transaction as i64 + 1),
            RUN_MAX,
        );
        done(call).await.is_ok()
    }

    /// Commits. Returns `Aborted` if the commit failed and the transaction must be aborted.
    async fn commit(&mut self, writer: &Writer, plan: Plan) -> Ending {
        let call = writer.client.commit_transaction(RUN_MAX);
        let limit = match plan {
            Plan::DieCommitting => Duration::from_micros(self.random.below(20_000)),
            _ => RUN_MAX,
        };
        match tokio::time::timeout(limit, done(call)).await {
            Ok(Ok(())) => Ending::Committed,
            Ok(Err(error)) if is_abortable(&error) => Ending::Aborted,
            Ok(Err(_)) | Err(_) => Ending::Unknown,
        }
    }

    /// Runs a transaction whose producer is fenced in the middle and tries to commit nevertheless.
    async fn outlive(&mut self, writer: Writer) -> Writer {
        let transaction = self.ledger.begin();
        let begun = done(writer.client.begin_transaction(RUN_MAX)).await;
        let is_whole = begun.is_ok() && self.fill(&writer, transaction).await;
        self.ledger.end(transaction, Ending::Aborted);
        let successor = self.successor().await;
        if is_whole {
            let late = self.ledger.name(0);
            let appended = append(self.world, &writer.client, &writer.topics, late).await;
            if appended.is_some() {
                self.ledger.add(transaction, late);
            }
            if done(writer.client.commit_transaction(RUN_MAX))
                .await
                .is_ok()
            {
                let broken = Broken::ZombieCommitted { transaction };
                self.ledger.break_promise(broken);
            }
        }
        successor
    }
}

fn is_abortable(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Producer(ProducerError::TransactionAbortable(_))
    )
}
