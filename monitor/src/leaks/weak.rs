//! What an object is looked for by.

use std::sync::Weak;

/// A reference that does not keep its object.
pub trait WeakReference: Send + 'static {
    /// Whether the object is still there.
    fn is_alive(&self) -> bool;
}

impl<T: ?Sized + Send + Sync + 'static> WeakReference for Weak<T> {
    fn is_alive(&self) -> bool {
        self.strong_count() > 0
    }
}
