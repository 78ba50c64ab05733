//! Sends many requests to a broker and prints its responses, to compare two brokers: `diff
//! <(responses kafka:9092) <(responses embedded:9092)`.
//!
//! Each must be a fresh broker of one node with the id 1. Ids and times are replaced by words.
//! Everything else is printed as received.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::too_many_lines
)]

mod admin;
mod bodies;
mod client;
mod fetching;
mod groups;
mod offsets;
mod producing;
mod sequences;
mod topics;
mod versions;

use thalweg_protocol::messages::describe_cluster;

use crate::client::Client;

fn main() {
    let address = std::env::args().nth(1).expect("usage: responses HOST:PORT");
    let mut client = Client::new(&address);
    let describe = describe_cluster::DescribeClusterRequest::default();
    if let Some(cluster) = client.quietly(&describe, 0) {
        client
            .words
            .insert(cluster.cluster_id.to_string(), "CLUSTER".to_owned());
    }
    versions::ask(&mut client);
    topics::ask(&mut client);
    producing::ask(&mut client);
    sequences::ask(&mut client);
    offsets::ask(&mut client);
    fetching::ask(&mut client);
    groups::ask(&mut client);
    admin::ask(&mut client);
}
