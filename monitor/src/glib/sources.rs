//! The two sources, which tell the beacon what the context is about to do.

use super::MainContext;
use super::library::{RawSource, SourceFuncs};
use crate::activity::Activity;
use crate::watch::BeaconShared;
use freezeframe_unwind::threads::current;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Both sources, in the context until this is dropped, which may be on any thread.
#[derive(Debug)]
pub(super) struct Sources {
    first: NonNull<RawSource>,
    last: NonNull<RawSource>,
    context: MainContext,
}

// SAFETY: here the sources are only destroyed and released, which may be done on any thread; what they hold is a `Teller`,
// which is `Send` and `Sync`.
unsafe impl Send for Sources {}

impl Sources {
    /// Before all others, and after them.
    const FIRST: c_int = c_int::MIN;
    const LAST: c_int = c_int::MAX;

    pub(super) fn attach(context: &MainContext, shared: &Arc<BeaconShared>) -> Self {
        let add = |funcs, priority| {
            let source = Teller::in_source(context, funcs, shared);
            // SAFETY: a source of ours, not in use yet, and a context that lives.
            unsafe {
                (context.library.source_set_name)(source.as_ptr(), c"freezeframe".as_ptr());
                (context.library.source_set_priority)(source.as_ptr(), priority);
                (context.library.source_attach)(source.as_ptr(), context.raw.as_ptr());
            }
            source
        };
        Self {
            first: add(&FIRST_FUNCS, Self::FIRST),
            last: add(&LAST_FUNCS, Self::LAST),
            context: context.clone(),
        }
    }
}

impl Drop for Sources {
    /// GLib keeps each of them until a callback that has begun has returned.
    fn drop(&mut self) {
        let library = self.context.library;
        for source in [self.last, self.first] {
            // SAFETY: sources of ours; the reference is that of their making.
            unsafe {
                (library.source_destroy)(source.as_ptr());
                (library.source_unref)(source.as_ptr());
            }
        }
    }
}

/// What a source of ours knows. Used by the thread that runs the context.
struct Teller {
    shared: Arc<BeaconShared>,
    /// The place of the thread that has run the context last.
    place: AtomicUsize,
    main_depth: unsafe extern "C" fn() -> c_int,
}

/// A source with what it knows, in memory of GLib's.
#[repr(C)]
struct TellingSource {
    source: RawSource,
    teller: Teller,
}

impl Teller {
    fn in_source(
        context: &MainContext,
        funcs: &'static SourceFuncs,
        shared: &Arc<BeaconShared>,
    ) -> NonNull<RawSource> {
        let size = size_of::<TellingSource>().try_into().expect("it is small");
        // SAFETY: the functions live for good; GLib sets up its part of the memory.
        let source = unsafe { (context.library.source_new)(funcs, size) };
        let source = NonNull::new(source).expect("GLib ends the process if it has no memory");
        let teller = Self {
            shared: shared.clone(),
            place: AtomicUsize::new(place()),
            main_depth: context.library.main_depth,
        };
        // SAFETY: memory for a `TellingSource`, aligned as every allocation of GLib's; this part is not set up yet.
        unsafe { (&raw mut (*source.as_ptr().cast::<TellingSource>()).teller).write(teller) };
        source
    }

    /// # Safety
    /// A source of ours that is being called.
    unsafe fn of<'a>(source: *mut RawSource) -> &'a Self {
        // SAFETY: see above; GLib keeps a source while it calls it.
        unsafe { &(*source.cast::<TellingSource>()).teller }
    }

    fn tell(&self, activity: Activity) {
        self.shared.store(activity);
    }

    /// A turn begins: who runs it, and inside how many others.
    fn tell_turn(&self) {
        if self.place.swap(place(), Ordering::Relaxed) != place() {
            self.shared.set_thread(current());
        }
        // SAFETY: it may always be asked.
        let around = unsafe { (self.main_depth)() };
        self.shared.set_depth(u32::try_from(around).unwrap_or(0).saturating_add(1));
        self.tell(Activity::BeforeTimers);
    }
}

/// Tells threads apart without asking the kernel.
fn place() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

static FIRST_FUNCS: SourceFuncs =
    SourceFuncs { prepare: Some(first_prepare), check: Some(first_check), ..NEVER_READY };
static LAST_FUNCS: SourceFuncs = SourceFuncs { prepare: Some(last_prepare), ..NEVER_READY };

/// What both have in common.
const NEVER_READY: SourceFuncs = SourceFuncs {
    prepare: None,
    check: Some(no_check),
    dispatch: Some(dispatch),
    finalize: Some(finalize),
    closure_callback: std::ptr::null_mut(),
    closure_marshal: std::ptr::null_mut(),
};

/// `FALSE`: none of them is ever ready.
const NOT_READY: c_int = 0;

unsafe extern "C" fn first_prepare(source: *mut RawSource, timeout: *mut c_int) -> c_int {
    // SAFETY: GLib calls with a source of ours.
    unsafe { Teller::of(source) }.tell_turn();
    // SAFETY: GLib's variable. No need to be asked again at any time.
    unsafe { *timeout = -1 };
    NOT_READY
}

unsafe extern "C" fn first_check(source: *mut RawSource) -> c_int {
    // SAFETY: GLib calls with a source of ours.
    unsafe { Teller::of(source) }.tell(Activity::AfterWaiting);
    NOT_READY
}

unsafe extern "C" fn last_prepare(source: *mut RawSource, timeout: *mut c_int) -> c_int {
    // SAFETY: GLib calls with a source of ours.
    unsafe { Teller::of(source) }.tell(Activity::BeforeWaiting);
    // SAFETY: GLib's variable. No need to be asked again at any time.
    unsafe { *timeout = -1 };
    NOT_READY
}

unsafe extern "C" fn no_check(_: *mut RawSource) -> c_int {
    NOT_READY
}

/// Never called. What it returns would remove the source.
unsafe extern "C" fn dispatch(_: *mut RawSource, _: *mut c_void, _: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn finalize(source: *mut RawSource) {
    // SAFETY: GLib calls once, when nobody uses the source any more, and frees its memory afterwards.
    unsafe { (&raw mut (*source.cast::<TellingSource>()).teller).drop_in_place() };
}
