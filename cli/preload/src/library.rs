//! GLib's own functions, looked up behind ours.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A `GMainContext`.
pub(crate) type Context = c_void;
/// A `GPollFunc`.
pub(crate) type Poll = unsafe extern "C" fn(fds: *mut c_void, count: c_uint, timeout: c_int) -> c_int;

/// The address of a function, once it was found.
pub(crate) struct Symbol {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Symbol {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Null if the program has no GLib.
    pub(crate) fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: names that end with a zero; nothing is loaded that is not there.
        let found = unsafe {
            let next = libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr());
            if next.is_null() {
                // Loaded for somebody alone, as the modules of an interpreter are.
                let own = libc::dlopen(c"libglib-2.0.so.0".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
                if own.is_null() { own } else { libc::dlsym(own, self.name.as_ptr()) }
            } else {
                next
            }
        };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

macro_rules! functions {
    ($($name:ident: $symbol:literal fn($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            /// GLib's own; none if the program has no GLib.
            pub(crate) fn $name() -> Option<unsafe extern "C" fn($($type),*) $(-> $result)?> {
                static SYMBOL: Symbol = Symbol::new($symbol);
                let address = SYMBOL.address();
                // SAFETY: a function of this type, as GLib declares it; or null, which is none.
                unsafe { std::mem::transmute(address) }
            }
        )*

        /// Looks for all of them, so that nothing is looked for later in a program that has them by now.
        pub(crate) fn look() {
            $(let _ = $name();)*
        }
    };
}

functions! {
    main_loop_run: c"g_main_loop_run" fn(main_loop: *mut c_void);
    main_loop_get_context: c"g_main_loop_get_context" fn(main_loop: *mut c_void) -> *mut Context;
    iteration: c"g_main_context_iteration" fn(context: *mut Context, may_block: c_int) -> c_int;
    set_poll: c"g_main_context_set_poll_func" fn(context: *mut Context, poll: Option<Poll>);
    get_poll: c"g_main_context_get_poll_func" fn(context: *mut Context) -> Option<Poll>;
    context_default: c"g_main_context_default" fn() -> *mut Context;
    thread_default: c"g_main_context_get_thread_default" fn() -> *mut Context;
    main_depth: c"g_main_depth" fn() -> c_int;
    poll: c"g_poll" fn(fds: *mut c_void, count: c_uint, timeout: c_int) -> c_int;
}
