//! Every file of the fuzz targets' corpora, as ordinary tests.

use freezeframe_tests::fuzz::TARGETS;
use std::path::Path;

/// Runs a target with each input that is kept, and with a few that no fuzzer has found yet.
fn replay(target: &'static str) {
    let (_, body) = TARGETS.into_iter().find(|(name, _)| *name == target).expect("a target of that name");
    let run = move || {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
        let mut count = 0;
        for entry in std::fs::read_dir(corpus).expect("each target has a corpus") {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let result = std::panic::catch_unwind(|| body(&bytes));
            assert!(result.is_ok(), "{target} fails with {}", path.display());
            count += 1;
        }
        assert!(count > 0);
        let mut random = 1u64;
        for length in 0..64 {
            let bytes = (0..length * 7).map(|_| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (random >> 56) as u8 & if length % 2 == 0 { 0xff } else { 0x1f }
            });
            body(&bytes.collect::<Vec<u8>>());
        }
        println!("corpus of {target}: {count} inputs");
    };
    // The targets' large storage passes through the stack of whoever makes it.
    std::thread::Builder::new().stack_size(64 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn walks_end_and_ascend() {
    replay("walk");
}

#[test]
fn call_frame_information_says_what_gimli_reads() {
    replay("cfi");
}

#[test]
fn compact_unwind_information_says_what_a_simple_reader_reads() {
    replay("compact");
}

#[test]
fn what_is_read_ahead_of_code_is_bounded() {
    replay("code");
}

#[test]
fn elf_files_say_what_object_reads() {
    replay("elf");
}

#[test]
fn mach_o_files_say_what_object_reads() {
    replay("macho");
}

#[test]
fn reports_are_shown_whatever_they_hold() {
    replay("report");
}

#[test]
fn rings_keep_what_was_committed_whenever_their_writer_dies() {
    replay("ring");
}

#[test]
fn freezes_are_found_and_nothing_else() {
    replay("detector");
}
