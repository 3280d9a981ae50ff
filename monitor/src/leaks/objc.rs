//! Objects of Objective-C, by the runtime's own weak references.

use super::WeakReference;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_void};
use std::mem::transmute;

type Object = *mut c_void;

/// The runtime's functions. It is not linked: a process that has objects has loaded it.
#[derive(Clone, Copy)]
struct Runtime {
    init_weak: unsafe extern "C" fn(*mut Object, Object) -> Object,
    load_weak_retained: unsafe extern "C" fn(*mut Object) -> Object,
    destroy_weak: unsafe extern "C" fn(*mut Object),
    release: unsafe extern "C" fn(Object),
}

impl Runtime {
    fn find() -> Option<Self> {
        let find = |name: &CStr| {
            // SAFETY: a name that ends.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        };
        let (init, load) = (find(c"objc_initWeak")?, find(c"objc_loadWeakRetained")?);
        let (destroy, release) = (find(c"objc_destroyWeak")?, find(c"objc_release")?);
        // SAFETY: these are the types that the runtime documents for functions of these names.
        unsafe {
            Some(Self {
                init_weak: transmute::<Object, unsafe extern "C" fn(*mut Object, Object) -> Object>(init),
                load_weak_retained: transmute::<Object, unsafe extern "C" fn(*mut Object) -> Object>(load),
                destroy_weak: transmute::<Object, unsafe extern "C" fn(*mut Object)>(destroy),
                release: transmute::<Object, unsafe extern "C" fn(Object)>(release),
            })
        }
    }
}

/// A weak reference to an Objective-C object.
pub struct WeakObject {
    runtime: Runtime,
    /// The runtime keeps the address of this, and clears it when the object goes.
    place: Box<UnsafeCell<Object>>,
}

// SAFETY: the runtime's weak references may be used by any thread, and this one is used by one at a time.
unsafe impl Send for WeakObject {}

impl std::fmt::Debug for WeakObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeakObject").finish_non_exhaustive()
    }
}

impl WeakObject {
    /// A weak reference to `object`. None if the process has not loaded the runtime, or the object is being deallocated, or
    /// is null.
    ///
    /// # Safety
    /// It is an object of a class that permits weak references, and alive during this call.
    pub unsafe fn new(object: *mut c_void) -> Option<Self> {
        let runtime = Runtime::find()?;
        let weak = Self { runtime, place: Box::new(UnsafeCell::new(std::ptr::null_mut())) };
        // SAFETY: the place stays where it is until it is destroyed; the object is as the caller says.
        let stored = unsafe { (runtime.init_weak)(weak.place.get(), object) };
        (!stored.is_null()).then_some(weak)
    }
}

impl WeakReference for WeakObject {
    fn is_alive(&self) -> bool {
        // SAFETY: the place was initialised by the runtime. What it gives is retained, and given back.
        unsafe {
            let object = (self.runtime.load_weak_retained)(self.place.get());
            (self.runtime.release)(object);
            !object.is_null()
        }
    }
}

impl Drop for WeakObject {
    fn drop(&mut self) {
        // SAFETY: the place was initialised by the runtime.
        unsafe { (self.runtime.destroy_weak)(self.place.get()) };
    }
}
