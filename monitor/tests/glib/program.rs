//! The program in C: compiled once, and loaded.

use std::ffi::{CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Its functions. GLib comes with it, and is nobody else's: found by its name only.
pub(crate) struct Library(*mut c_void);

// SAFETY: the library stays loaded, and functions may be looked up on any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// What the program asks again and again.
pub(crate) type Enough = unsafe extern "C" fn(*mut c_void) -> c_int;

impl Library {
    /// The reason why there is none, otherwise.
    pub(crate) fn get() -> Result<&'static Self, &'static str> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(|| load(&compile()?)).as_ref().map_err(String::as_str)
    }

    pub(crate) fn new_program(&self, global: bool, enough: Enough, asked: *mut c_void) -> *mut c_void {
        type New = unsafe extern "C" fn(c_int, Enough, *mut c_void) -> *mut c_void;
        // SAFETY: as `program.c` has it.
        let new = unsafe { std::mem::transmute::<*mut c_void, New>(self.function("program_new")) };
        // SAFETY: as above; `asked` is what `enough` takes.
        unsafe { new(c_int::from(global), enough, asked) }
    }

    /// Calls a function that takes a program, and may return a pointer.
    pub(crate) fn call(&self, function: &str, program: *mut c_void) -> *mut c_void {
        type Call = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
        // SAFETY: as `program.c` has it. What a function without a result leaves is not used.
        let call = unsafe { std::mem::transmute::<*mut c_void, Call>(self.function(function)) };
        // SAFETY: a program that lives.
        unsafe { call(program) }
    }

    fn function(&self, name: &str) -> *mut c_void {
        let symbol = CString::new(name).unwrap();
        // SAFETY: a library that is loaded, and a string.
        let address = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        assert!(!address.is_null(), "program.c has no {name}");
        address
    }
}

fn compile() -> Result<PathBuf, String> {
    let runner = format!("CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER", std::env::consts::ARCH.to_uppercase());
    if std::env::var_os(runner).is_some() {
        return Err("the C compiler is not for this program's machine".to_owned());
    }
    let flags = Command::new("pkg-config").args(["--cflags", "--libs", "glib-2.0"]).output();
    let flags = flags.map_err(|_| "there is no pkg-config")?;
    if !flags.status.success() {
        return Err("there is no GLib to compile against".to_owned());
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/glib/program.c");
    let library =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("glib-program-{}.so", std::process::id()));
    let compiled = Command::new("cc")
        // Each function stays on the stack while those that it calls run.
        .args(["-O2", "-fno-optimize-sibling-calls", "-g", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .args(String::from_utf8_lossy(&flags.stdout).split_whitespace())
        .output()
        .map_err(|_| "there is no C compiler")?;
    let messages = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "program.c does not compile: {messages}");
    Ok(library)
}

fn load(path: &Path) -> Result<Library, String> {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a string; the library's constructors are GLib's.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null(), "{} does not load", path.display());
    Ok(Library(library))
}
