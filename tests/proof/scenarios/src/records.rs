//! Records to write: real captures, each with a number of its own.

use freezeframe_report::encode::{About, AppState, Kind, Process, Strategy, System, Told};
use freezeframe_report::layout::{SECTION_HEADER, crc};

/// What a record says beside its threads. `component` tells one from the other.
pub fn about(component: &str) -> About<'_> {
    About {
        uuid: [0; 16],
        kind: Kind::Freeze,
        strategy: Strategy::RunLoop,
        crash: None,
        component,
        activity: 64,
        wall_ns: 1_700_000_000_000_000_000,
        started_ns: 1_000_000_000,
        detected_ns: 1_250_000_000,
        continuous_ns: 1_250_000_000,
        discounted_ns: 0,
        interval_ns: 50_000_000,
        misses: 5,
        late_ticks: 0,
        wakeups: 0,
        boot_id: [1; 16],
        process: Process {
            pid: std::process::id(),
            parent: 1,
            parent_name: b"parent",
            start_ticks: 1,
            name: b"scenario",
            path: b"/scenario",
            app: "scenario",
            version: "1",
            debugged: false,
            app_state: AppState::Unknown,
            translated: false,
            cpu_ns: 1,
            footprint_bytes: 1,
        },
        system: System {
            os: b"",
            build: b"",
            kernel: b"",
            model: b"",
            cores: 1,
            page_bytes: 4096,
            memory_bytes: 1,
        },
        told: Told::default(),
        vitals: None,
    }
}

/// Puts a number into a record: into the UUID of its first section, whose checksum is made right again.
pub fn numbered(record: &mut [u8], number: u64) {
    let length: [u8; 4] = record[4..8].try_into().expect("four bytes");
    let end = SECTION_HEADER + u32::from_le_bytes(length) as usize;
    record[SECTION_HEADER..SECTION_HEADER + 16].copy_from_slice(&u128::from(number).to_be_bytes());
    let sum = crc(&[&record[..8], &record[SECTION_HEADER..end]]);
    record[8..SECTION_HEADER].copy_from_slice(&sum.to_le_bytes());
}
