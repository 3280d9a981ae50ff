//! GLib's functions, looked up in the process that has GLib loaded: nothing is linked.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// A `GMainContext`.
pub(super) type RawContext = c_void;

/// A `GSource`, which its maker may make larger. Part of GLib's ABI: twelve fields, one of them two numbers.
#[repr(C)]
pub(super) struct RawSource {
    callback_data: *mut c_void,
    callback_funcs: *mut c_void,
    source_funcs: *const SourceFuncs,
    ref_count: c_uint,
    context: *mut RawContext,
    priority: c_int,
    flags: c_uint,
    source_id: c_uint,
    poll_fds: *mut c_void,
    prev: *mut RawSource,
    next: *mut RawSource,
    name: *mut c_char,
    private: *mut c_void,
}

/// A kind of source: `GSourceFuncs`. GLib keeps the address.
#[repr(C)]
pub(super) struct SourceFuncs {
    /// Before the wait. Whether it is ready already.
    pub(super) prepare: Option<unsafe extern "C" fn(*mut RawSource, *mut c_int) -> c_int>,
    /// After the wait. Whether it is ready.
    pub(super) check: Option<unsafe extern "C" fn(*mut RawSource) -> c_int>,
    pub(super) dispatch: Option<unsafe extern "C" fn(*mut RawSource, *mut c_void, *mut c_void) -> c_int>,
    pub(super) finalize: Option<unsafe extern "C" fn(*mut RawSource)>,
    pub(super) closure_callback: *mut c_void,
    pub(super) closure_marshal: *mut c_void,
}

// SAFETY: never changed, and its null pointers are nobody's.
unsafe impl Sync for SourceFuncs {}

macro_rules! library {
    ($($field:ident: $symbol:literal fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that are needed.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Library {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            fn from(find: impl Fn(&CStr) -> Option<*mut c_void>) -> Option<Self> {
                Some(Self {
                    // SAFETY: the functions' types are as GLib declares them.
                    $($field: unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            find($symbol)?,
                        )
                    },)*
                })
            }
        }
    };
}

library! {
    context_default: c"g_main_context_default" fn() -> *mut RawContext;
    context_ref: c"g_main_context_ref" fn(*mut RawContext) -> *mut RawContext;
    context_unref: c"g_main_context_unref" fn(*mut RawContext);
    main_depth: c"g_main_depth" fn() -> c_int;
    source_new: c"g_source_new" fn(*const SourceFuncs, c_uint) -> *mut RawSource;
    source_set_name: c"g_source_set_name" fn(*mut RawSource, *const c_char);
    source_set_priority: c"g_source_set_priority" fn(*mut RawSource, c_int);
    source_attach: c"g_source_attach" fn(*mut RawSource, *mut RawContext) -> c_uint;
    source_destroy: c"g_source_destroy" fn(*mut RawSource);
    source_unref: c"g_source_unref" fn(*mut RawSource);
}

impl Library {
    #[cfg(target_vendor = "apple")]
    const NAME: &CStr = c"libglib-2.0.0.dylib";
    #[cfg(not(target_vendor = "apple"))]
    const NAME: &CStr = c"libglib-2.0.so.0";

    /// None if the process has no GLib.
    pub(super) fn find() -> Option<Self> {
        let global = |name: &CStr| symbol(libc::RTLD_DEFAULT, name);
        Self::from(global).or_else(|| {
            // Loaded for somebody alone, as the modules of an interpreter are. It stays loaded.
            // SAFETY: a string; nothing is loaded that is not there.
            let own = unsafe { libc::dlopen(Self::NAME.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            if own.is_null() { None } else { Self::from(|name| symbol(own, name)) }
        })
    }
}

fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a library that is loaded, and a string.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}
