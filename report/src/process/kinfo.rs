//! `struct kinfo_proc` of `<sys/sysctl.h>`, as 64-bit kernels of Apple's fill it in: the few fields of its 648 bytes that
//! tell a process.

use super::Status;

/// Bytes of the structure.
pub(super) const BYTES: usize = 648;

/// `p_starttime`: seconds, and microseconds in four bytes.
const START_SECONDS: usize = 0;
const START_MICROSECONDS: usize = 8;
/// `p_flag`.
const FLAGS: usize = 32;
/// `p_stat`.
const STATE: usize = 36;
/// `p_pid`.
const PID: usize = 40;
/// `p_comm`: up to 16 bytes and a zero.
const NAME: std::ops::Range<usize> = 243..260;

/// `P_TRACED`.
const TRACED: u32 = 0x800;
/// `SZOMB`.
const ZOMBIE: u8 = 5;

fn field<const N: usize>(info: &[u8; BYTES], at: usize) -> [u8; N] {
    info[at..].first_chunk().copied().unwrap_or([0; N])
}

/// None if it is about another process.
pub(super) fn status(info: &[u8; BYTES], pid: u32) -> Option<Status> {
    let microseconds = u64::from(u32::from_le_bytes(field(info, START_MICROSECONDS)));
    let seconds = u64::from_le_bytes(field(info, START_SECONDS));
    let name = info[NAME].split(|byte| *byte == 0).next().unwrap_or(&[]).to_vec();
    (u32::from_le_bytes(field(info, PID)) == pid).then(|| Status {
        name,
        started: seconds.wrapping_mul(1_000_000).wrapping_add(microseconds),
        ended: info[STATE] == ZOMBIE,
    })
}

pub(super) fn is_traced(info: &[u8; BYTES]) -> bool {
    u32::from_le_bytes(field(info, FLAGS)) & TRACED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> [u8; BYTES] {
        let mut info = [0xee; BYTES];
        info[..8].copy_from_slice(&1_700_000_000u64.to_le_bytes());
        info[8..12].copy_from_slice(&123_456u32.to_le_bytes());
        info[32..36].copy_from_slice(&0x4004u32.to_le_bytes());
        info[36] = 2;
        info[40..44].copy_from_slice(&4711u32.to_le_bytes());
        info[243..251].copy_from_slice(b"program\0");
        info
    }

    #[test]
    fn the_fields_are_read_from_their_places() {
        let status = status(&info(), 4711).unwrap();
        let started = 1_700_000_000_123_456;
        assert_eq!(status, Status { name: b"program".to_vec(), started, ended: false });
        assert!(!is_traced(&info()));
    }

    #[test]
    fn a_zombie_another_process_and_a_debugged_one_are_told() {
        let mut other = info();
        other[36] = 5;
        other[33] |= 8;
        assert!(status(&other, 4711).unwrap().ended && is_traced(&other));
        assert_eq!(status(&other, 4712), None);
    }
}
