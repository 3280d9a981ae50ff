//! The stores of some code into a part of memory, one by one.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod elsewhere;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(super) use elsewhere::until;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) use linux::until;
