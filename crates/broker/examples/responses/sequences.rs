//! Produce requests of idempotent producers.

use std::time::Duration;

use thalweg_protocol::messages::{describe_producers, init_producer_id};

use crate::bodies::{produce_to, sequenced};
use crate::client::Client;

pub(crate) fn ask(client: &mut Client) {
    let id = client.create("sequences", 1, &[]);
    let init = init_producer_id::InitProducerIdRequest {
        transactional_id: None,
        ..Default::default()
    };
    client.ask(
        "init, empty id",
        &init_producer_id::InitProducerIdRequest::default(),
        4,
    );
    let mut response = client.quietly(&init, 4).expect("responds");
    // A real broker needs a moment to get its first block of ids.
    for _ in 0..1200 {
        if response.error_code == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        response = client.quietly(&init, 4).expect("responds");
    }
    println!(
        "init: {} epoch {}\n",
        response.error_code, response.producer_epoch
    );
    let pid = response.producer_id;
    let cases = [
        ("first", pid, 0, 0, 2),
        ("second", pid, 0, 2, 3),
        ("second again", pid, 0, 2, 3),
        ("first again", pid, 0, 0, 2),
        ("gap", pid, 0, 9, 1),
        ("overlap", pid, 0, 3, 2),
        ("third", pid, 0, 5, 1),
        ("4", pid, 0, 6, 1),
        ("5", pid, 0, 7, 1),
        ("6", pid, 0, 8, 1),
        ("7", pid, 0, 9, 1),
        ("forgotten twin", pid, 0, 0, 2),
        ("new epoch, not 0", pid, 2, 4, 1),
        ("new epoch", pid, 2, 0, 1),
        ("old epoch", pid, 0, 10, 1),
        ("old epoch's twin", pid, 0, 9, 1),
        ("new epoch again", pid, 2, 0, 1),
        ("unknown producer", pid + 5000, 0, 7, 1),
        ("wrap 1", pid + 5001, 0, i32::MAX - 1, 2),
        ("wrap 2", pid + 5001, 0, 0, 2),
        ("wrap inside", pid + 5002, 0, i32::MAX, 2),
        ("after wrap", pid + 5002, 0, 1, 2),
        ("after wrap again", pid + 5002, 0, 1, 2),
    ];
    for (what, pid, epoch, first, count) in cases {
        let records = sequenced(pid, epoch, first, count);
        let response = client.quietly(&produce_to("sequences", id, 0, &records), 12);
        let Some(response) = response else {
            println!("sequence {what}: closed\n");
            continue;
        };
        let partition = &response.responses[0].partition_responses[0];
        println!(
            "sequence {what}: error {} offset {} time {} start {}\n",
            partition.error_code,
            partition.base_offset,
            partition.log_append_time_ms,
            partition.log_start_offset
        );
    }
    let request = describe_producers::DescribeProducersRequest {
        topics: vec![describe_producers::TopicRequest {
            name: "sequences".into(),
            partition_indexes: vec![0, 4],
        }],
    };
    if let Some(mut response) = client.quietly(&request, 0) {
        for partition in response
            .topics
            .iter_mut()
            .flat_map(|topic| &mut topic.partitions)
        {
            partition.error_message = None;
            partition
                .active_producers
                .sort_by_key(|producer| producer.producer_id);
            partition
                .active_producers
                .iter_mut()
                .for_each(|p| p.producer_id -= pid);
        }
        client.show("describe producers", &response);
    }
    let transactional = init_producer_id::InitProducerIdRequest {
        transactional_id: None,
        producer_id: pid,
        producer_epoch: 3,
        ..Default::default()
    };
    let response = client.quietly(&transactional, 4).expect("responds");
    println!(
        "init again: {} new id {}\n",
        response.error_code,
        response.producer_id != pid
    );
}
