//! Captures of every kind, each in a process of its own, on which something lies in wait: a filter that kills at a system
//! call that `docs/SAFETY.md` does not list, or an allocator that ends the process.
//!
//! `cargo test -p freezeframe-tests --test captures -- [syscalls|allocations]`

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod calls;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod child;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod filter;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod parent;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod scenarios;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod targets;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod tripwire;

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["child", mode, scenario, file] => child::run(mode, scenario, file.as_ref()),
        _ => parent::run(&arguments),
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")))]
fn main() {
    println!("not tested: filters of system calls and glibc's allocator are Linux's; tried on x86_64");
}
