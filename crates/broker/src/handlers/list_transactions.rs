//! `ListTransactions` // key 66
//!
//! The transactional ids that this node coordinates and that pass all filters.

use thalweg_protocol::messages::list_transactions::{
    ListTransactionsRequest, ListTransactionsResponse, TransactionState,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::context::Context;
use crate::coordinator::CoordinatorKind;
use crate::subject::Subject;
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
    if let Some(code) = context.injected() {
        return Err(code);
    }
    let pattern = match request.transactional_id_pattern.as_deref() {
        None | Some("") => None,
        Some(text) => Some(Pattern::parse(text)?),
    };
    let passes = |id: &Str, transaction: &Transaction| {
        context.coordinates(CoordinatorKind::Transaction, id)
            && passes(request, transaction, context.now_ms)
            && pattern.as_ref().is_none_or(|pattern| pattern.matches(id))
    };
    let found = context.core.transactions.iter();
    let found = found.filter(|(id, transaction)| passes(id, transaction));
    Ok(found
        .map(|(id, transaction)| TransactionState {
            transactional_id: id.clone(),
            producer_id: transaction.producer.id,
            transaction_state: transaction.state.name().into(),
        })
        .collect())
}

/// An empty filter lets all pass.
fn passes(request: &ListTransactionsRequest, transaction: &Transaction, now_ms: i64) -> bool {
    let (states, producers) = (&request.state_filters, &request.producer_id_filters);
    let state = transaction.state.name();
    let is_state = states.is_empty() || states.iter().any(|name| name.as_str() == state);
    let is_producer = producers.is_empty() || producers.contains(&transaction.producer.id);
    // Kafka takes -1, no transaction yet, for a very old one.
    let age_ms = now_ms - transaction.start_ms;
    let is_old = request.duration_filter < 0 || age_ms > request.duration_filter;
    is_state && is_producer && is_old
}
