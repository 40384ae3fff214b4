//! The program that libFuzzer drives. FUZZ_TARGET names the target that it is to drive.

#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    fuzz::target(&name).unwrap_or_else(|| {
        panic!(
            "FUZZ_TARGET is {name:?}: must be one of {:?}",
            fuzz::names()
        )
    })
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET(data));
