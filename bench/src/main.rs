//! The command. See the library.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    freezeframe_bench::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("freezeframe-bench: the peers that it compares with are Linux's");
    ExitCode::from(2)
}
