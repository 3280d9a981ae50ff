//! Assembles the routines of the target's architecture with the system's C compiler.

fn main() {
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let source = match architecture.as_str() {
        "x86_64" => "src/x86_64.S",
        "aarch64" => "src/arm64.S",
        other => {
            println!("cargo::error=freezeframe has no assembly for `{other}`: build for x86_64 or aarch64");
            return;
        }
    };
    println!("cargo::rerun-if-changed={source}");
    println!("cargo::rerun-if-changed=src/symbols.h");
    cc::Build::new().file(source).include("src").compile("freezeframe_asm");
}
