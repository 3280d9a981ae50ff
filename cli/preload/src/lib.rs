//! What `freezeframe run` loads into a program: if that uses GLib, it tells a watcher in another process what the main loop is
//! about to do, in memory that both share.
//!
//! ```text
//! g_main_loop_run, g_main_context_iteration ──first run of the default context──▶ its poll function becomes ours
//! poll function: BeforeWaiting ─▶ the program's own ─▶ AfterWaiting          the outermost run ends: Exit
//! ```
//!
//! It has no thread, no signal handler and no state but a few words; it allocates nothing while a loop runs. Before the program
//! begins it takes itself out of the environment, so that children have what they would have. Until a loop of the default
//! context is run on the main thread nothing of GLib's is touched: no context is made that the program would not make. Whoever
//! asks for the context's poll function, or sets it, deals with the program's own.

#[cfg(target_os = "linux")]
mod environment;
#[cfg(target_os = "linux")]
mod library;
#[cfg(target_os = "linux")]
mod telling;
#[cfg(target_os = "linux")]
mod wrapped;
