//! Makes the first inputs of the fuzz targets, and writes them into the corpora: `cargo run -p freezeframe-tests --example
//! seeds`. What a fuzzer finds on from there is kept beside them.

use freezeframe_tests::fuzz::seeds;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let scratch = std::env::temp_dir().join(format!("freezeframe-seeds-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let seeds = seeds::all(&scratch);
    std::fs::remove_dir_all(&scratch)?;
    for (target, name, bytes) in &seeds {
        let folder = corpora.join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("seed-{name}")), bytes)?;
    }
    println!("{} seeds", seeds.len());
    Ok(())
}
