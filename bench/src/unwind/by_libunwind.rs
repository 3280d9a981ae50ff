//! libunwind, loaded apart: linked, it would take the place of libgcc's functions.

#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::walks;

/// Its context is filled in by assembly in its header.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn walks(table: &mut crate::table::Table) -> Result<(), String> {
    table.row("libunwind: measured on x86_64 only", None, crate::measure::Cost::NONE);
    Ok(())
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use crate::measure::Cost;
    use crate::table::Table;
    use crate::unwind::row;
    use std::ffi::{CStr, c_int, c_void};

    pub(crate) fn walks(table: &mut Table) -> Result<(), String> {
        let Some(libunwind) = Libunwind::load() else {
            table.row("libunwind: not installed", None, Cost::NONE);
            return Ok(());
        };
        row(table, "libunwind, unw_backtrace", |pcs| libunwind.backtrace(pcs))?;
        row(table, "libunwind, unw_step", |pcs| libunwind.step_by_step(pcs)).map(drop)
    }

    /// `unw_context_t` has 121 words, `unw_cursor_t` 127.
    type Storage = [u64; 128];

    /// The instruction pointer's number.
    const IP: c_int = 16;

    struct Libunwind {
        backtrace: unsafe extern "C" fn(*mut u64, c_int) -> c_int,
        get_context: unsafe extern "C" fn(*mut Storage) -> c_int,
        init_local: unsafe extern "C" fn(*mut Storage, *mut Storage) -> c_int,
        step: unsafe extern "C" fn(*mut Storage) -> c_int,
        get_register: unsafe extern "C" fn(*mut Storage, c_int, *mut u64) -> c_int,
    }

    impl Libunwind {
        fn load() -> Option<Self> {
            // SAFETY: its constructors do nothing to this program; its symbols stay its own.
            let library =
                unsafe { libc::dlopen(c"libunwind.so.8".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            let symbol = |name: &CStr| {
                // SAFETY: a library that is loaded, and never unloaded.
                let address = unsafe { libc::dlsym(library, name.as_ptr()) };
                (!library.is_null() && !address.is_null()).then_some(address)
            };
            // SAFETY: functions of these types, as libunwind.h declares them; addresses are words.
            unsafe {
                Some(Self {
                    backtrace: function(symbol(c"unw_backtrace")?),
                    get_context: function(symbol(c"_Ux86_64_getcontext")?),
                    init_local: function(symbol(c"_ULx86_64_init_local")?),
                    step: function(symbol(c"_ULx86_64_step")?),
                    get_register: function(symbol(c"_ULx86_64_get_reg")?),
                })
            }
        }

        fn backtrace(&self, pcs: &mut [u64]) -> usize {
            // SAFETY: it writes at most as many words as it is told.
            let frames = unsafe { (self.backtrace)(pcs.as_mut_ptr(), pcs.len() as c_int) };
            usize::try_from(frames).unwrap_or(0)
        }

        /// In a frame that is there as long as the context of it is used.
        #[inline(never)]
        fn step_by_step(&self, pcs: &mut [u64]) -> usize {
            let (mut context, mut cursor): (Storage, Storage) = ([0; 128], [0; 128]);
            // SAFETY: storage that is large enough.
            unsafe { (self.get_context)(&mut context) };
            // SAFETY: as above, and a context of this function.
            unsafe { (self.init_local)(&mut cursor, &mut context) };
            let mut filled = 0;
            for slot in pcs {
                // SAFETY: a cursor that was initialised, and a word.
                unsafe { (self.get_register)(&mut cursor, IP, slot) };
                filled += 1;
                // SAFETY: a cursor that was initialised.
                if unsafe { (self.step)(&mut cursor) } <= 0 {
                    break;
                }
            }
            filled
        }
    }

    /// # Safety
    /// A function of the type `F`, a pointer, is at `address`.
    unsafe fn function<F: Copy>(address: *mut c_void) -> F {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: promised by the caller.
        unsafe { std::mem::transmute_copy(&address) }
    }
}
