#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg_protocol::fuzzing::fuzz_decode_response(data));
