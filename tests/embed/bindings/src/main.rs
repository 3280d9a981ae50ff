//! Prints the C header of the crate in a folder, as its `cbindgen.toml` has it.

use cbindgen::{Builder, Config};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("which crate's folder?")?;
    let folder = Path::new(&folder);
    let config = Config::from_file(folder.join("cbindgen.toml"))?;
    Builder::new().with_config(config).with_crate(folder).generate()?.write(std::io::stdout());
    Ok(())
}
