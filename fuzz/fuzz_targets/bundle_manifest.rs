#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hospes_fuzz_targets::run("bundle_manifest", data));
