//! Counted objects: strings, observers, sources, timers and loops.

use super::run_loop::Loop;
use objc2_core_foundation::{
    CFAbsoluteTime, CFIndex, CFOptionFlags, CFRunLoopObserverCallBack, CFRunLoopObserverContext,
    CFRunLoopSourceContext, CFRunLoopTimerCallBack, CFRunLoopTimerContext, CFTimeInterval,
};
use std::borrow::Cow;
use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

#[repr(C)]
pub(super) struct Object {
    references: AtomicIsize,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Name(Cow<'static, str>),
    Loop(Loop),
    Observer(Observer),
    Source(Source),
    Timer(Timer),
}

pub(super) struct Observer {
    pub(super) activities: CFOptionFlags,
    pub(super) order: CFIndex,
    pub(super) callout: CFRunLoopObserverCallBack,
    /// It is being called: observers are not called again meanwhile.
    pub(super) firing: AtomicBool,
    pub(super) info: Info,
}

pub(super) struct Source {
    pub(super) order: CFIndex,
    pub(super) perform: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    pub(super) signalled: AtomicBool,
    pub(super) info: Info,
}

pub(super) struct Timer {
    /// None once it has fired and does not repeat.
    pub(super) next: Mutex<Option<CFAbsoluteTime>>,
    pub(super) interval: CFTimeInterval,
    pub(super) callout: CFRunLoopTimerCallBack,
    pub(super) info: Info,
}

/// What a context holds.
pub(super) struct Info {
    pub(super) pointer: *mut c_void,
    release: Option<unsafe extern "C-unwind" fn(*const c_void)>,
}

impl Info {
    fn retained(
        pointer: *mut c_void,
        retain: Option<unsafe extern "C-unwind" fn(*const c_void) -> *const c_void>,
        release: Option<unsafe extern "C-unwind" fn(*const c_void)>,
    ) -> Self {
        // SAFETY: the context says that its function takes its pointer.
        let pointer = retain.map_or(pointer, |retain| unsafe { retain(pointer) }.cast_mut());
        Self { pointer, release }
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the pointer was retained, and nobody has it any more.
            unsafe { release(self.pointer) };
        }
    }
}

// SAFETY: what changes is atomic or locked; contexts belong to tests, which give those that may be used on any thread.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    const fn constant(name: &'static str) -> Self {
        Self { references: AtomicIsize::new(isize::MAX / 2), kind: Kind::Name(Cow::Borrowed(name)) }
    }

    pub(super) fn name(&self) -> &str {
        let Kind::Name(name) = &self.kind else { panic!("not a string") };
        name
    }

    pub(super) fn run_loop(&self) -> &Loop {
        let Kind::Loop(run_loop) = &self.kind else { panic!("not a run loop") };
        run_loop
    }

    pub(super) fn observer(&self) -> &Observer {
        let Kind::Observer(observer) = &self.kind else { panic!("not an observer") };
        observer
    }

    pub(super) fn source(&self) -> &Source {
        let Kind::Source(source) = &self.kind else { panic!("not a source") };
        source
    }

    pub(super) fn timer(&self) -> &Timer {
        let Kind::Timer(timer) = &self.kind else { panic!("not a timer") };
        timer
    }
}

/// One reference.
pub(super) struct Held(NonNull<Object>);

// SAFETY: the objects may be used on every thread.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Held {
    pub(super) fn new(kind: Kind) -> Self {
        let object = Box::new(Object { references: AtomicIsize::new(1), kind });
        Self(NonNull::from(Box::leak(object)))
    }

    /// Another reference to it.
    pub(super) fn of(object: &Object) -> Self {
        object.references.fetch_add(1, Ordering::Relaxed);
        Self(NonNull::from(object))
    }

    pub(super) fn into_raw(self) -> *const Object {
        std::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    pub(super) fn is(&self, object: &Object) -> bool {
        std::ptr::eq(self.0.as_ptr(), object)
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        Self::of(self)
    }
}

impl Deref for Held {
    type Target = Object;

    fn deref(&self) -> &Object {
        // SAFETY: this reference keeps it.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let before = self.references.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "released more often than retained");
        if before == 1 {
            // SAFETY: made by `new`, and this was the last reference.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

static DEFAULT_MODE: Object = Object::constant("kCFRunLoopDefaultMode");
static COMMON_MODES: Object = Object::constant("kCFRunLoopCommonModes");

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static kCFRunLoopDefaultMode: &Object = &DEFAULT_MODE;
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static kCFRunLoopCommonModes: &Object = &COMMON_MODES;

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRetain(object: &Object) -> *const Object {
    Held::of(object).into_raw()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRelease(object: NonNull<Object>) {
    drop(Held(object));
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn CFAbsoluteTimeGetCurrent() -> CFAbsoluteTime {
    const YEAR_2001: f64 = 978_307_200.0;
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() - YEAR_2001
}

/// # Safety
/// `bytes` are so many.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn CFStringCreateWithBytes(
    _allocator: *const c_void,
    bytes: *const u8,
    count: CFIndex,
    _encoding: u32,
    _is_external: u8,
) -> *const Object {
    // SAFETY: the caller's.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, count as usize) };
    let name = std::str::from_utf8(bytes).unwrap().to_owned();
    Held::new(Kind::Name(Cow::Owned(name))).into_raw()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopObserverCreate(
    _allocator: *const c_void,
    activities: CFOptionFlags,
    repeats: u8,
    order: CFIndex,
    callout: CFRunLoopObserverCallBack,
    context: &CFRunLoopObserverContext,
) -> *const Object {
    assert!(repeats == 1 && context.version == 0);
    let info = Info::retained(context.info, context.retain, context.release);
    let firing = AtomicBool::new(false);
    Held::new(Kind::Observer(Observer { activities, order, callout, firing, info })).into_raw()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopSourceCreate(
    _allocator: *const c_void,
    order: CFIndex,
    context: &CFRunLoopSourceContext,
) -> *const Object {
    assert_eq!(context.version, 0);
    let info = Info::retained(context.info, context.retain, context.release);
    let signalled = AtomicBool::new(false);
    Held::new(Kind::Source(Source { order, perform: context.perform, signalled, info })).into_raw()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopSourceSignal(source: &Object) {
    source.source().signalled.store(true, Ordering::SeqCst);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopTimerCreate(
    _allocator: *const c_void,
    fire: CFAbsoluteTime,
    interval: CFTimeInterval,
    _flags: CFOptionFlags,
    _order: CFIndex,
    callout: CFRunLoopTimerCallBack,
    context: &CFRunLoopTimerContext,
) -> *const Object {
    let info = Info::retained(context.info, context.retain, context.release);
    Held::new(Kind::Timer(Timer { next: Mutex::new(Some(fire)), interval, callout, info })).into_raw()
}
