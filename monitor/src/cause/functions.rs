//! Functions that say what a thread waits for, by name: of the C library, of Apple's `libsystem_kernel`, of event loops.

/// What a function on the stack says of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It waits for a lock.
    Lock,
    /// It waits for another thread, process or machine.
    Peer,
    /// It waits for a set time.
    Sleep,
    /// It waits for a child process.
    Child,
    /// It waits for a file or a device.
    Io,
    /// It is where an event loop waits for events.
    Loop,
    /// It waits for a peer's answer, in an event loop of its own perhaps.
    Sync,
    /// It waits for a child, and for what that writes, in an event loop of its own perhaps.
    Spawn,
    /// It waits for whatever comes: whoever calls it knows for what.
    Events,
}

/// Names without leading underscores, of which libraries add different numbers.
const FUNCTIONS: &[(&str, Role)] = &[
    ("pthread_mutex_lock", Role::Lock),
    ("pthread_mutex_timedlock", Role::Lock),
    ("pthread_mutex_clocklock", Role::Lock),
    ("pthread_rwlock_rdlock", Role::Lock),
    ("pthread_rwlock_wrlock", Role::Lock),
    ("pthread_rwlock_timedrdlock", Role::Lock),
    ("pthread_rwlock_timedwrlock", Role::Lock),
    ("lll_lock_wait", Role::Lock),
    ("lll_lock_wait_private", Role::Lock),
    ("flockfile", Role::Lock),
    ("pthread_once", Role::Lock),
    ("cxa_guard_acquire", Role::Lock),
    ("g_mutex_lock", Role::Lock),
    ("ZN11QBasicMutex12lockInternalEv", Role::Lock),
    ("os_unfair_lock_lock", Role::Lock),
    ("os_unfair_lock_lock_slow", Role::Lock),
    ("ulock_wait", Role::Lock),
    ("ulock_wait2", Role::Lock),
    ("psynch_mutexwait", Role::Lock),
    ("psynch_rw_rdlock", Role::Lock),
    ("psynch_rw_wrlock", Role::Lock),
    ("pthread_cond_wait", Role::Peer),
    ("pthread_cond_timedwait", Role::Peer),
    ("pthread_cond_clockwait", Role::Peer),
    ("pthread_join", Role::Peer),
    ("pthread_timedjoin_np", Role::Peer),
    ("pthread_barrier_wait", Role::Peer),
    ("g_cond_wait", Role::Peer),
    ("g_cond_wait_until", Role::Peer),
    ("sem_wait", Role::Peer),
    ("sem_timedwait", Role::Peer),
    ("psynch_cvwait", Role::Peer),
    ("semaphore_wait_trap", Role::Peer),
    ("semaphore_timedwait_trap", Role::Peer),
    ("dispatch_sync_f_slow", Role::Peer),
    ("dispatch_semaphore_wait_slow", Role::Peer),
    ("recvfrom", Role::Peer),
    ("recvmsg", Role::Peer),
    ("accept", Role::Peer),
    ("connect", Role::Peer),
    ("semwait_signal", Role::Sleep),
    ("semwait_signal_nocancel", Role::Sleep),
    ("nanosleep", Role::Sleep),
    ("usleep", Role::Sleep),
    ("wait4", Role::Child),
    ("wait4_nocancel", Role::Child),
    ("waitid", Role::Child),
    ("posix_spawn", Role::Child),
    ("posix_spawnp", Role::Child),
    ("vfork", Role::Child),
    ("waitpid", Role::Child),
    ("read", Role::Io),
    ("read_nocancel", Role::Io),
    ("pread", Role::Io),
    ("write", Role::Io),
    ("write_nocancel", Role::Io),
    ("open", Role::Io),
    ("open_nocancel", Role::Io),
    ("fsync", Role::Io),
    ("fcntl", Role::Io),
    ("stat64", Role::Io),
    ("lstat64", Role::Io),
    ("getdirentries64", Role::Io),
    ("CFRunLoopServiceMachPort", Role::Loop),
    ("CFRunLoopRunSpecific", Role::Loop),
    ("g_main_context_iteration", Role::Loop),
    ("g_main_loop_run", Role::Loop),
    ("uv__io_poll", Role::Loop),
    ("uv_run", Role::Loop),
    ("event_base_loop", Role::Loop),
    ("ev_run", Role::Loop),
    ("ZN20QEventDispatcherUNIX13processEventsE6QFlagsIN10QEventLoop17ProcessEventsFlagEE", Role::Loop),
    ("sd_event_run", Role::Loop),
    ("gtk_main_iteration_do", Role::Loop),
    ("XNextEvent", Role::Loop),
    ("xcb_wait_for_event", Role::Loop),
    ("wl_display_dispatch", Role::Loop),
    ("SDL_WaitEvent", Role::Loop),
    ("SDL_WaitEventTimeout", Role::Loop),
    ("glfwWaitEvents", Role::Loop),
    ("Tcl_WaitForEvent", Role::Loop),
    ("g_dbus_connection_send_message_with_reply_sync", Role::Sync),
    ("g_dbus_connection_call_sync", Role::Sync),
    ("g_dbus_proxy_call_sync", Role::Sync),
    ("g_socket_condition_wait", Role::Sync),
    ("g_socket_condition_timed_wait", Role::Sync),
    ("dbus_connection_send_with_reply_and_block", Role::Sync),
    ("dbus_pending_call_block", Role::Sync),
    ("sd_bus_call", Role::Sync),
    ("xcb_wait_for_reply", Role::Sync),
    ("xcb_wait_for_reply64", Role::Sync),
    ("xcb_wait_for_special_event", Role::Sync),
    ("xcb_connect_to_fd", Role::Sync),
    ("XIfEvent", Role::Sync),
    ("wl_display_roundtrip", Role::Sync),
    ("wl_display_roundtrip_queue", Role::Sync),
    ("ZNK15QDBusConnection4callERK12QDBusMessageN5QDBus8CallModeEi", Role::Sync),
    ("ZN15QAbstractSocket16waitForConnectedEi", Role::Sync),
    ("ZN15QAbstractSocket16waitForReadyReadEi", Role::Sync),
    ("ZN10QSslSocket16waitForReadyReadEi", Role::Sync),
    ("ZN10QSslSocket16waitForEncryptedEi", Role::Sync),
    ("ZN12QLocalSocket16waitForConnectedEi", Role::Sync),
    ("ZN12QLocalSocket16waitForReadyReadEi", Role::Sync),
    ("curl_easy_perform", Role::Sync),
    ("PQgetResult", Role::Sync),
    ("getaddrinfo", Role::Sync),
    ("gethostbyname", Role::Sync),
    ("gethostbyname_r", Role::Sync),
    ("g_spawn_sync", Role::Spawn),
    ("g_subprocess_wait", Role::Spawn),
    ("g_subprocess_communicate", Role::Spawn),
    ("ZN4node17SyncProcessRunner23TryInitializeAndRunLoopEN2v85LocalINS1_5ValueEEE", Role::Spawn),
    ("ZN8QProcess14waitForStartedEi", Role::Spawn),
    ("ZN8QProcess15waitForFinishedEi", Role::Spawn),
    ("ZN8QProcess16waitForReadyReadEi", Role::Spawn),
    ("mach_msg_trap", Role::Events),
    ("mach_msg2_trap", Role::Events),
    ("kevent", Role::Events),
    ("kevent64", Role::Events),
    ("kevent_qos", Role::Events),
    ("poll", Role::Events),
    ("poll_nocancel", Role::Events),
    ("ppoll", Role::Events),
    ("select", Role::Events),
    ("select_nocancel", Role::Events),
    ("pselect", Role::Events),
    ("epoll_wait", Role::Events),
    ("epoll_pwait", Role::Events),
];

/// The same for functions of Rust's, whose names say where they are defined and end with a number: a part of the library's name, a
/// part of the function's, what that is called, and what it waits for.
const RUST_FUNCTIONS: &[(&str, &str, &str, Role)] = &[
    ("3std3sys", "5Mutex14lock_contended", "Mutex::lock", Role::Lock),
    ("3std3sys", "6RwLock14read_contended", "RwLock::read", Role::Lock),
    ("3std3sys", "6RwLock15write_contended", "RwLock::write", Role::Lock),
    ("3std3sys", "4Once4call", "Once::call", Role::Lock),
    ("3std3sys", "4Once4wait", "Once::wait", Role::Lock),
    ("3std3sys", "7Condvar4wait", "Condvar::wait", Role::Peer),
    ("3std3sys", "7Condvar12wait_timeout", "Condvar::wait_timeout", Role::Peer),
    ("3std3sys", "7Condvar21wait_optional_timeout", "Condvar::wait", Role::Peer),
    ("11parking_lot", "8RawMutex9lock_slow", "parking_lot::Mutex::lock", Role::Lock),
    ("11parking_lot", "9RawRwLock16lock_shared_slow", "parking_lot::RwLock::read", Role::Lock),
    ("11parking_lot", "9RawRwLock19lock_exclusive_slow", "parking_lot::RwLock::write", Role::Lock),
    ("11parking_lot", "9RawRwLock20lock_upgradable_slow", "parking_lot::RwLock::upgradable_read", Role::Lock),
    ("11parking_lot", "9RawRwLock16wait_for_readers", "parking_lot::RwLock::write", Role::Lock),
    ("11parking_lot", "9RawRwLock12upgrade_slow", "parking_lot::RwLock::upgrade", Role::Lock),
    ("11parking_lot", "9RawRwLock11lock_common", "parking_lot::RwLock::lock", Role::Lock),
    ("11parking_lot", "4Once14call_once_slow", "parking_lot::Once::call_once", Role::Lock),
    ("11parking_lot", "7Condvar19wait_until_internal", "parking_lot::Condvar::wait", Role::Peer),
];

/// How far from where a thread stands such a function is looked for: the wrappers of a wait are fewer.
pub(crate) const FRAMES: usize = 8;

/// A function of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
}

/// The function of that name, if it is one of the table.
pub(crate) fn known(name: &[u8]) -> Option<Known> {
    let underscores = name.iter().take_while(|byte| **byte == b'_').count();
    let bare = name.get(underscores..)?;
    let found = FUNCTIONS.iter().find(|(known, _)| known.as_bytes() == bare);
    found.map(|(name, role)| Known { name, role: *role }).or_else(|| rust_function(bare))
}

/// Names as both of the compiler's ways of mangling them have them, after their underscores.
fn rust_function(name: &[u8]) -> Option<Known> {
    let has = |part: &str| name.windows(part.len()).any(|word| word == part.as_bytes());
    if !name.starts_with(b"ZN") && !name.starts_with(b"RN") {
        return None;
    }
    let found = RUST_FUNCTIONS.iter().find(|(library, function, ..)| has(library) && has(function))?;
    Some(Known { name: found.2, role: found.3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_rusts_are_known_by_the_parts_of_their_names() {
        let role = |name: &str| known(name.as_bytes()).map(|known| (known.name, known.role));
        let legacy = "_ZN3std3sys4sync5mutex5futex5Mutex14lock_contended17h0123456789abcdefE";
        assert_eq!(role(legacy), Some(("Mutex::lock", Role::Lock)));
        let newer = "_RNvMNtNtNtNtCs2jU2Qmns0dQ_3std3sys4sync7condvar5futexNtB2_7Condvar4wait";
        assert_eq!(role(newer), Some(("Condvar::wait", Role::Peer)));
        let others = "_ZN11parking_lot9raw_mutex8RawMutex9lock_slow17h0123456789abcdefE";
        assert_eq!(role(others), Some(("parking_lot::Mutex::lock", Role::Lock)));
        assert_eq!(role("_ZN5sloop5Mutex14lock_contended17h0123456789abcdefE"), None, "somebody else's");
    }

    #[test]
    fn leading_underscores_do_not_matter_and_others_do() {
        let role = |name: &str| known(name.as_bytes()).map(|known| known.role);
        assert_eq!(role("pthread_mutex_lock"), Some(Role::Lock));
        assert_eq!(role("___pthread_mutex_lock"), Some(Role::Lock));
        assert_eq!(role("__CFRunLoopServiceMachPort"), Some(Role::Loop));
        assert_eq!((role("pthread_mutex"), role("uv_io_poll"), role("___")), (None, None, None));
    }
}
