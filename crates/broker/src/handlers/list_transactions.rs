//! `ListTransactions` // key 66
//!
//! Lists the transactional ids that this node coordinates and that pass all filters.

use std::collections::BTreeSet;

use thalweg_protocol::messages::list_transactions::{
    ListTransactionsRequest, ListTransactionsResponse, TransactionState,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::topology::coordinator::CoordinatorKind;
use crate::transactions::{Pattern, State, Transaction};

impl Subject for ListTransactionsRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: ListTransactionsRequest,
) -> ListTransactionsResponse {
    match list(context, &request) {
        Ok(transaction_states) => ListTransactionsResponse {
            unknown_state_filters: unknown_states(&request),
            transaction_states,
            ..ListTransactionsResponse::default()
        },
        Err(code) => ListTransactionsResponse {
            error_code: code.0,
            ..ListTransactionsResponse::default()
        },
    }
}

fn unknown_states(request: &ListTransactionsRequest) -> Vec<Str> {
    let names = request.state_filters.iter();
    names
        .filter(|name| !State::is_name(name))
        .cloned()
        .collect()
}

fn list(
    context: &Context<'_>,
    request: &ListTransactionsRequest,
) -> Result<Vec<TransactionState>, ErrorCode> {
    if let Some(code) = context.refusal() {
        return Err(code);
    }
    let pattern = match request.transactional_id_pattern.as_deref() {
        None | Some("") => None,
        Some(text) => Some(Pattern::parse(text)?),
    };
    let filters = Filters {
        states: request.state_filters.iter().collect(),
        producers: request.producer_id_filters.iter().copied().collect(),
        duration_ms: request.duration_filter,
    };
    let passes = |id: &Str, transaction: &Transaction| {
        context.denied_transactional_id(id).is_none()
            && context.coordinates(CoordinatorKind::Transaction, id)
            && filters.pass(transaction, context.now_ms)
    };
    let found = context.core.transactions.iter();
    let mut found: Vec<_> = found
        .filter(|(id, transaction)| passes(id, transaction))
        .collect();
    if let Some(pattern) = pattern {
        let id_bytes = found.iter().map(|(id, _)| id.as_bytes().len()).sum();
        pattern.check_work(id_bytes)?;
        found.retain(|(id, _)| pattern.matches(id));
    }
    let found = found.into_iter();
    Ok(found
        .map(|(id, transaction)| TransactionState {
            transactional_id: id.clone(),
            producer_id: transaction.producer.id,
            transaction_state: transaction.state.name().into(),
        })
        .collect())
}

/// Filters for transactions. An empty filter lets all pass.
struct Filters<'a> {
    states: BTreeSet<&'a Str>,
    producers: BTreeSet<i64>,
    duration_ms: i64,
}

impl Filters<'_> {
    fn pass(&self, transaction: &Transaction, now_ms: i64) -> bool {
        let state = transaction.state.name();
        let is_state = self.states.is_empty() || self.states.contains(&Str::from_static(state));
        let is_producer =
            self.producers.is_empty() || self.producers.contains(&transaction.producer.id);
        // As in Kafka, -1 (no transaction yet) counts as very old.
        let age_ms = now_ms - transaction.start_ms;
        let is_old = self.duration_ms < 0 || age_ms > self.duration_ms;
        is_state && is_producer && is_old
    }
}
