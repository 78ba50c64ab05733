//! Work that becomes due with time: setup and request timeouts, idle connections, ends of backoffs.

use std::time::Instant;

use super::{Connections, Key};
use crate::address::Address;
use crate::connection::State;
use crate::error::ConnectionError;
use crate::event::Action;
use crate::nodes::Nodes;

impl Connections {
    /// Handles setup timeouts, request timeouts, idle connections, and attempts whose backoff is
    /// over.
    pub(crate) fn tick(&mut self, nodes: &Nodes, now: Instant) {
        let due: Vec<Key> = self
            .by_key
            .iter()
            .filter(|(_, c)| {
                c.wanted
                    || c.next_deadline(now, self.max_idle)
                        .is_some_and(|at| at <= now)
            })
            .map(|(&key, _)| key)
            .collect();
        for key in due {
            self.tick_one(key, nodes, now);
        }
    }

    fn tick_one(&mut self, key: Key, nodes: &Nodes, now: Instant) {
        let Some(connection) = self.by_key.get(&key) else {
            return;
        };
        match &connection.state {
            State::Disconnected => {
                if connection.wanted && connection.may_connect(now) {
                    self.connect(key, 0, nodes, now);
                }
            }
            &State::Connecting {
                conn,
                deadline,
                timeout,
                step,
                ..
            } => {
                if now >= deadline {
                    let address = address(nodes, key);
                    self.actions.push_back(Action::Close { conn });
                    let error = match step {
                        None => ConnectionError::SetupTimedOut { address, timeout },
                        Some(step) => ConnectionError::StepTimedOut {
                            address,
                            step,
                            timeout,
                        },
                    };
                    self.attempt_failed(conn, error, nodes, now);
                }
            }
            State::Ready { .. } => {
                if let Some(late) = connection.overdue(now) {
                    let error = ConnectionError::RequestTimedOut {
                        api: late.api_key,
                        timeout: late.timeout,
                    };
                    self.close(key, error, now);
                } else if let Some(started) = &connection.reauthentication {
                    if now >= started.deadline {
                        self.reauthentication_is_late(key, address(nodes, key), now);
                    }
                } else if connection.is_idle() && now >= connection.last_used + self.max_idle {
                    self.close(key, ConnectionError::Idle, now);
                } else if connection.wanted {
                    self.reauthenticate(key, now);
                }
            }
        }
    }

    pub(crate) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        self.by_key
            .values()
            .filter_map(|c| c.next_deadline(now, self.max_idle))
            .min()
    }
}

fn address(nodes: &Nodes, key: Key) -> String {
    nodes
        .address(key.0)
        .map_or_else(String::new, Address::to_string)
}
