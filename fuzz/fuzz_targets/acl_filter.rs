#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg_security::fuzzing::fuzz_acl_filter(data));
