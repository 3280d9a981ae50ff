//! Structures of the caller's, which begin with their own size.

use crate::error::ff_error;

/// Gives `value` to the caller, whose structure may be longer than ours, but not shorter.
///
/// # Safety
/// `out` is null, or begins with the number of its bytes, which can be written to. The first field of `T` is a `u32`.
pub(crate) unsafe fn give<T>(out: *mut T, value: T) -> Result<(), ff_error> {
    // SAFETY: as the caller promises.
    unsafe { check(out) }?;
    // SAFETY: as large as `T`, at least. C's alignment is not relied upon.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// A copy of the caller's structure, or `None` for a null pointer.
///
/// # Safety
/// As of [`give`], for reading.
pub(crate) unsafe fn take<T: Copy>(from: *const T) -> Result<Option<T>, ff_error> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    unsafe { check(from) }?;
    // SAFETY: as large as `T`, at least.
    Ok(Some(unsafe { from.read_unaligned() }))
}

unsafe fn check<T>(structure: *const T) -> Result<(), ff_error> {
    if structure.is_null() {
        return Err(ff_error::FF_ERROR_NULL);
    }
    // SAFETY: the first field, as the caller promises.
    let size = unsafe { structure.cast::<u32>().read_unaligned() };
    if (size as usize) < size_of::<T>() { Err(ff_error::FF_ERROR_SIZE) } else { Ok(()) }
}
