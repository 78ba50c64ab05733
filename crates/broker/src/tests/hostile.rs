use proptest::prelude::*;

use super::transactional::{Writer, init, init_request};
use super::*;

/// A frame with a correct header and any body.
fn frame_of(key: i16, version: i16, body: &[u8]) -> Bytes {
    let mut frame = Vec::new();
    frame.extend_from_slice(&key.to_be_bytes());
    frame.extend_from_slice(&version.to_be_bytes());
    frame.extend_from_slice(&7_i32.to_be_bytes());
    frame.extend_from_slice(&[0, 1, b'c']);
    frame.extend_from_slice(body);
    frame.into()
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_refused(
        key in -1_i16..95,
        version in -1_i16..20,
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bench = Bench::new(1);
        bench.create("t", 1, &[]);
        drop(bench.handle_frame(1, frame_of(key, version, &body)));
    }

    #[test]
    fn a_damaged_request_harms_nothing(
        at in 0_usize..200,
        with in any::<u8>(),
        version in 3_i16..=13,
    ) {
        let mut bench = Bench::new(1);
        bench.create("t", 1, &[]);
        let request = produce_request("t", 0, batch(&[NOW_MS, NOW_MS]));
        let mut frame = frame::encode_request(&request, version, 7, Some("c")).unwrap();
        let at = 4 + at % (frame.len() - 4);
        frame[at] ^= with;
        drop(bench.handle_frame(1, Bytes::from(frame).slice(4..)));
        let kept = bench.fetch("t", 0, 0);
        prop_assert_eq!(base_offsets(&kept).len() as i64 * 2, kept.high_watermark);
    }

    #[test]
    fn a_damaged_fetch_harms_nothing(
        at in 0_usize..200,
        with in any::<u8>(),
        version in 4_i16..=18,
    ) {
        let mut bench = Bench::new(1);
        let id = bench.create("t", 1, &[]);
        bench.produce("t", 0, batch(&[NOW_MS]));
        let mut request = fetch_request("t", &[(0, 0)]);
        request.topics[0].topic_id = id;
        let mut frame = frame::encode_request(&request, version, 7, Some("c")).unwrap();
        let at = 4 + at % (frame.len() - 4);
        frame[at] ^= with;
        let outcome = bench.handle_frame(1, Bytes::from(frame).slice(4..));
        if let Outcome::Wait(mut wait) = outcome {
            bench.now = wait.deadline().unwrap();
            prop_assert!(bench.poll(&mut wait).is_some());
        }
    }
}

/// Requests of transactions, as a client sends them during one.
fn transactional_frames(writer: &Writer) -> Vec<(i16, i16, Vec<u8>)> {
    fn frame<R: Request>(request: &R, version: i16) -> (i16, i16, Vec<u8>) {
        let mut body = Vec::new();
        request.encode(&mut body, version).unwrap();
        (R::KEY.0, version, body)
    }
    let produce = writer.produce_request("t", 0, 1);
    vec![
        frame(&init_request("x", Some((writer.id, writer.epoch))), 3),
        frame(&writer.add_request("t"), 2),
        frame(&writer.add_offsets_request("g"), 2),
        frame(&writer.offset_request("g", "t", 7), 2),
        frame(&writer.end_request(true), 2),
        frame(&produce, 9),
    ]
}

proptest! {
    #[test]
    fn damaged_requests_of_a_transaction_leave_the_log_whole(
        steps in proptest::collection::vec((0_usize..6, 0_usize..300, any::<u8>()), 1..12),
    ) {
        let mut bench = Bench::new(1);
        bench.create("t", 1, &[]);
        let writer = init(&mut bench, "x");
        writer.produce(&mut bench, "t", 0).unwrap();
        let frames = transactional_frames(&writer);
        for (which, at, with) in steps {
            let (key, version, mut body) = frames[which].clone();
            let at = at % body.len();
            body[at] ^= with;
            // In flexible versions the request header has its own tags.
            let is_flexible = (key, version) == (0, 9) || (key, version) == (22, 3);
            if is_flexible {
                body.insert(0, 0);
            }
            drop(bench.handle_frame(1, frame_of(key, version, &body)));
            let deadline = bench.core.next_deadline();
            prop_assert!(deadline >= bench.now);
        }
        bench.pass(Duration::from_secs(24 * 3600));
        bench.core.tick(bench.now, bench.now_ms);
        // Every open transaction has timed out, so nothing is held back and every batch can be
        // read.
        let all = bench.fetch("t", 0, 0);
        prop_assert_eq!(all.last_stable_offset, all.high_watermark);
        prop_assert_eq!(base_offsets(&all).len() as i64, all.high_watermark);
    }
}
