//! What a descriptor is open for.

use super::classify::Descriptor;
use crate::subject::{self, Subject};
use rustix::fs::FileType;

/// None if nothing is open under that number.
pub(crate) fn of(subject: Subject, number: u64) -> Option<Descriptor> {
    let number = i32::try_from(number).ok().filter(|number| *number >= 0)?;
    Some(match FileType::from_raw_mode(subject::descriptor_mode(subject, number)?) {
        FileType::RegularFile | FileType::Symlink => Descriptor::File,
        FileType::Fifo => Descriptor::Pipe,
        FileType::Socket => Descriptor::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => Descriptor::Device,
        FileType::Directory => Descriptor::Folder,
        FileType::Unknown => Descriptor::Other,
    })
}

/// Whether an epoll's descriptor of that number watches no other one.
pub(super) fn watches_nothing(subject: Subject, number: u64) -> bool {
    let number = i32::try_from(number).ok().filter(|number| *number >= 0);
    number.and_then(|number| subject::watched_descriptors(subject, number)) == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[cfg(target_os = "linux")]
    #[test]
    fn an_epoll_watches_nothing_until_it_is_given_something() {
        use rustix::event::epoll;
        let watcher = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let (reader, _writer) = std::io::pipe().unwrap();
        let watches_nothing = || super::watches_nothing(Subject::Own, watcher.as_raw_fd() as u64);
        assert!(watches_nothing());
        epoll::add(&watcher, &reader, epoll::EventData::new_u64(1), epoll::EventFlags::IN).unwrap();
        assert!(!watches_nothing());
        assert!(!super::watches_nothing(Subject::Own, 9_999_999), "nothing is open there");
    }

    #[test]
    fn descriptors_are_what_they_are_open_for() {
        let of = |number| of(Subject::Own, number);
        let of_fd = |fd: &dyn AsRawFd| of(fd.as_raw_fd() as u64);
        let (reader, _writer) = std::io::pipe().unwrap();
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(of_fd(&reader), Some(Descriptor::Pipe));
        assert_eq!(of_fd(&socket), Some(Descriptor::Socket));
        assert_eq!(of_fd(&file), Some(Descriptor::File));
        assert_eq!((of(u64::MAX), of(9_999_999)), (None, None));
    }
}
