//! Who writes.

/// A process, told from every other one that ever had its id: by when it began, in which boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its id.
    pub pid: u32,
    /// When it began. Linux: in clock ticks of 10 ms since the boot. Apple: in microseconds since 1970.
    pub start_ticks: u64,
    /// The boot in which it runs.
    pub boot_id: [u8; 16],
}
