//! The adapter of GLib's main loop, on a plain GLib program that this test compiles, without a display.
//!
//! Where there is no C compiler or no GLib to compile against, the tests say so and do nothing; `monitor/tests/glib/run`
//! installs what is missing and takes no such excuse.
//!
//! Every test has a context of its own. Bounds on real time are wide: they tell a bounded wait from a hang.
#![cfg(all(target_os = "linux", feature = "glib"))]

mod freezes;
mod healthy;
mod life;
mod program;
mod stage;
