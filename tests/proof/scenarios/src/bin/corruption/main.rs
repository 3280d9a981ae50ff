//! Memory that is not what it should be: heaps, stacks, images, our own.

#[cfg(target_os = "linux")]
mod captures;
#[cfg(target_os = "linux")]
mod crashes;
#[cfg(target_os = "linux")]
mod images;
#[cfg(target_os = "linux")]
mod own;
#[cfg(target_os = "linux")]
mod stacks;
#[cfg(target_os = "linux")]
mod target;
#[cfg(target_os = "linux")]
mod verdict;

#[cfg(target_os = "linux")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["heap", pattern, folder] => crashes::with_a_ruined_heap(pattern, folder.as_ref()),
        ["overflow", _, folder] => crashes::by_an_overflow(folder.as_ref()),
        ["proc", how, folder] => crashes::without_proc(how, folder.as_ref()),
        [what, how, folder] => {
            let ran = std::panic::catch_unwind(|| match what {
                "stack" => stacks::run(how),
                "images" => images::run(how, folder.as_ref()),
                _ => own::run(folder.as_ref()),
            });
            // Nobody must look for what was taken away.
            // SAFETY: nothing is to be written out.
            unsafe { libc::_exit(i32::from(ran.is_err())) };
        }
        [] => std::process::exit(i32::from(!verdict::prove())),
        _ => panic!("usage: corruption"),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
