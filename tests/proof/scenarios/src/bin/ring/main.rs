//! The report file: writers killed at any instant, attacked files, full disks.

#[cfg(target_os = "linux")]
mod attacks;
#[cfg(target_os = "linux")]
mod disks;
#[cfg(target_os = "linux")]
mod kills;
#[cfg(target_os = "linux")]
mod samples;

#[cfg(target_os = "linux")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["kill", kills, seed, folder] => kills::worker(number(kills), number(seed), folder.as_ref()),
        ["write", file] => attacks::write(file.as_ref()),
        ["fill", folder, records] => disks::fill(folder.as_ref(), number(records)),
        ["disk", kind, records] => disks::one(kind, records),
        ["kills", kills] => end(&[kills::prove(number(kills))]),
        ["attacks"] => end(&[attacks::prove()]),
        ["disks"] => end(&[disks::prove()]),
        [] => end(&[kills::prove(10_000), attacks::prove(), disks::prove()]),
        _ => panic!("usage: ring [kills NUMBER | attacks | disks]"),
    }
}

#[cfg(target_os = "linux")]
fn end(holds: &[bool]) {
    std::process::exit(i32::from(holds.contains(&false)));
}

#[cfg(target_os = "linux")]
fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

#[cfg(not(target_os = "linux"))]
fn main() {}
