use proptest::prelude::*;

use super::*;

/// A frame with a good header and any body.
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
