//! Every file of the fuzz targets' corpora, as an ordinary test.

use freezeframe_tests::fuzz::TARGETS;
use std::path::Path;

#[test]
fn every_input_that_a_fuzzer_kept_still_passes() {
    // The targets' large storage passes through the stack of whoever makes it.
    let run = || {
        let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
        for (name, body) in TARGETS {
            let mut count = 0;
            for entry in std::fs::read_dir(corpora.join(name)).expect("each target has a corpus") {
                body(&std::fs::read(entry.unwrap().path()).unwrap());
                count += 1;
            }
            println!("{name}: {count} inputs");
            assert!(count > 0);
            // A few that no fuzzer has found yet.
            let mut random = 1u64;
            for length in 0..400 {
                let bytes = (0..length * 7).map(|_| {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (random >> 56) as u8 & if length % 2 == 0 { 0xff } else { 0x1f }
                });
                body(&bytes.collect::<Vec<u8>>());
            }
        }
    };
    std::thread::Builder::new().stack_size(64 << 20).spawn(run).unwrap().join().unwrap();
}
