//! Captures of every kind while another thread holds a lock for good: of the loader, the allocator, the streams, our own.

#[cfg(target_os = "linux")]
mod heap;
#[cfg(target_os = "linux")]
mod parks;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod verdict;

#[cfg(target_os = "linux")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [place, rest, folder] => program::run(place, rest == "runs", folder.as_ref()),
        [] => std::process::exit(i32::from(!verdict::prove())),
        _ => panic!("usage: locks"),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
