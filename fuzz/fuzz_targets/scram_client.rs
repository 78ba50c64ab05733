#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg_network::fuzzing::fuzz_scram_client(data));
