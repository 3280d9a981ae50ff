#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| freezeframe_tests::fuzz::code(bytes));
