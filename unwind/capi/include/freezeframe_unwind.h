/*
 * freezeframe's stack walker: stops a thread, copies its stack through the kernel and walks the copy. No allocation, no locks, no
 * panics. Functions are async-signal-safe where they say so under "Signal safety".
 *
 * A function that takes an `ff_core` returns `FF_ERROR_NULL` for a null pointer, `FF_ERROR_STORAGE` for memory that `ff_init` has not
 * set up, and `FF_ERROR_BUSY` while it is in use; one that takes a structure, `FF_ERROR_SIZE` if its field `size` says that it is
 * too small. What a function returns besides is said with it. With an error, nothing is written to what its arguments point to.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef FREEZEFRAME_UNWIND_H
#define FREEZEFRAME_UNWIND_H

/* Made from the Rust source by `tests/embed/headers --write`. */

#include <stddef.h>
#include <stdint.h>

// The version of this header, to be compared with `ff_version`.
#define FF_VERSION 100

// How many bytes a thread's name has, the zero at its end included.
#define FF_NAME_SIZE 64

// How many threads one capture has room for.
#define FF_MAX_THREADS 128

// How many frames one capture has room for, of all threads together.
#define FF_MAX_FRAMES 4096

// How many bytes `ff_init` needs at most, for memory that is set aside when a program is compiled; see `ff_storage_size`.
#define FF_STORAGE_SIZE (1024 * 1024)

// A power of two that the address of the memory must be a multiple of.
#define FF_STORAGE_ALIGN 16

// What a call returns: zero if all went well.
typedef enum ff_error {
  // All went well.
  FF_OK = 0,
  // A pointer that is needed is null.
  FF_ERROR_NULL = 1,
  // The memory is too small, badly aligned, or was not set up by `ff_init`.
  FF_ERROR_STORAGE = 2,
  // The memory is in use: by another thread, or by what this signal handler has interrupted.
  FF_ERROR_BUSY = 3,
  // There is no such thread, frame or image.
  FF_ERROR_NOT_FOUND = 4,
  // The field `size` of a structure is smaller than the structure.
  FF_ERROR_SIZE = 5,
  // The kernel refuses the handler of the signal that stops threads.
  FF_ERROR_INIT = 6,
  // The threads cannot be listed.
  FF_ERROR_THREADS = 7,
  // The images cannot be listed.
  FF_ERROR_IMAGES = 8,
  // The `ucontext_t` cannot be read.
  FF_ERROR_CONTEXT = 9,
  // This system cannot do that.
  FF_ERROR_UNSUPPORTED = 10,
  // An argument has a value that it cannot have.
  FF_ERROR_ARGUMENT = 11,
} ff_error;

// How a thread was held while it was read.
typedef enum ff_held {
  // It was not: no registers, no frames. `why` says why.
  FF_HELD_NOT = 0,
  // By a signal.
  FF_HELD_SIGNAL = 1,
  // By Mach's `thread_suspend`.
  FF_HELD_MACH = 2,
  // By a helper that traced it.
  FF_HELD_PTRACE = 3,
  // It was not stopped, but waited in the kernel all the while.
  FF_HELD_PEEK = 4,
  // By a signal, but it went on before all was copied: the stack may be torn.
  FF_HELD_TORN = 5,
  // It is the thread that captured.
  FF_HELD_ITSELF = 6,
} ff_held;

// Where a frame's address came from: the smaller, the better.
typedef enum ff_trust {
  // The thread's registers.
  FF_TRUST_CONTEXT = 1,
  // The link register.
  FF_TRUST_LINK_REGISTER = 2,
  // Call frame information.
  FF_TRUST_CFI = 3,
  // Compact unwind information.
  FF_TRUST_COMPACT = 4,
  // The frame pointer.
  FF_TRUST_FRAME_POINTER = 5,
  // A word that looks like a return address.
  FF_TRUST_SCAN = 6,
} ff_trust;

// The scheduler's state of a thread.
typedef enum ff_state {
  // It could not be read.
  FF_STATE_UNKNOWN = 0,
  // It runs, or waits for a processor.
  FF_STATE_RUNNING = 1,
  // In a wait that a signal ends.
  FF_STATE_SLEEPING = 2,
  // In a wait that no signal ends.
  FF_STATE_UNINTERRUPTIBLE = 3,
  // Stopped by a signal or a debugger.
  FF_STATE_STOPPED = 4,
  // It has ended.
  FF_STATE_DEAD = 5,
  // A kernel's idle state.
  FF_STATE_IDLE = 6,
} ff_state;

// Why a walk has ended. All but `FF_STOP_END` mean that frames are missing.
typedef enum ff_stop {
  // The thread was not held: there was nothing to walk.
  FF_STOP_NOT_WALKED = 0,
  // The end of the stack.
  FF_STOP_END = 1,
  // A frame record without a return address.
  FF_STOP_NULL = 2,
  // A frame pointer that is not a multiple of eight.
  FF_STOP_MISALIGNED = 3,
  // A frame that is not above its callee's: a cycle, or not what it should be.
  FF_STOP_NOT_ASCENDING = 4,
  // A frame pointer outside of the stack.
  FF_STOP_OUT_OF_BOUNDS = 5,
  // Memory that cannot be read, or that was not copied.
  FF_STOP_UNREADABLE = 6,
  // A return address in memory that holds no code.
  FF_STOP_NOT_CODE = 7,
  // The limit of steps.
  FF_STOP_LIMIT = 8,
  // Neither unwind tables nor a frame pointer lead on from this address.
  FF_STOP_NO_RULE = 9,
  // The system lets no memory of the process be read.
  FF_STOP_MEMORY_REFUSED = 10,
} ff_stop;

// What an image is.
typedef enum ff_image_kind {
  // An ELF executable or library.
  FF_IMAGE_ELF = 1,
  // The kernel's vDSO: ELF, but in no file.
  FF_IMAGE_VDSO = 2,
  // Executable memory of no file: code made at run time, a kernel's page.
  FF_IMAGE_ANONYMOUS = 3,
  // A Mach-O executable or library.
  FF_IMAGE_MACH_O = 4,
} ff_image_kind;

// Images, the latest capture, and what walks have learned: in the memory that was given to `ff_init`. One user at a time; a signal
// handler needs one of its own.
typedef struct ff_core ff_core;

// Whom to capture and how long to wait. Zero in each field is the default.
typedef struct ff_options {
  // `sizeof(ff_options)`.
  uint32_t size;
  // The thread that is captured first and deepest. Zero is the main thread.
  int32_t first;
  // After how many milliseconds no further thread is stopped. Zero is 500.
  uint32_t within_ms;
  // How many threads to leave out; 64 at most.
  uint32_t exclude_count;
  // Which threads to leave out; null if none.
  const int32_t *exclude;
  // Zero.
  uint64_t reserved[4];
} ff_options;

// An image: an executable or a library that is loaded. What it points to is in the library's memory, and valid until the next
// `ff_refresh_images`.
typedef struct ff_image {
  // `sizeof(ff_image)`, to be set by the caller.
  uint32_t size;
  // An `ff_image_kind`.
  uint32_t kind;
  // Where it begins.
  uint64_t start;
  // Where it ends, exclusive.
  uint64_t end;
  // What to add to an address in the file to get the one in memory.
  uint64_t slide;
  // Its path, without a zero at its end.
  const uint8_t *path;
  // How many bytes the path has.
  size_t path_length;
  // Its build id, or a Mach-O file's UUID.
  const uint8_t *build_id;
  // How many bytes that has; zero if there is none.
  size_t build_id_length;
  // Zero.
  uint64_t reserved[4];
} ff_image;

// One thread of a capture.
typedef struct ff_thread {
  // `sizeof(ff_thread)`, to be set by the caller.
  uint32_t size;
  // Its id.
  int32_t id;
  // Whether it is the main thread: 0 or 1.
  uint8_t main;
  // An `ff_held`.
  uint8_t held;
  // An `ff_state`.
  uint8_t state;
  // Zero.
  uint8_t reserved_byte;
  // Why it was not held, or not in the next better way; 0 if there is no reason. See `ff_why_text`.
  uint32_t why;
  // Why the walk has ended: an `ff_stop`, in words by `ff_stop_text`.
  uint32_t stop;
  // How many frames there are to read.
  uint32_t frames;
  // After how many of them some are left out, and how many.
  uint32_t omitted_after;
  // Zero.
  uint32_t reserved_word;
  // See `omitted_after`.
  uint64_t omitted;
  // The address that `stop` is about; zero if none.
  uint64_t stop_address;
  // For how long it was held, in nanoseconds.
  uint64_t held_ns;
  // Its CPU time, in nanoseconds.
  uint64_t cpu_ns;
  // Program counter, stack pointer and frame pointer; zero if it was not held. By a peek there is no frame pointer.
  uint64_t pc;
  // See `pc`.
  uint64_t sp;
  // See `pc`.
  uint64_t fp;
  // Its name, with a zero at its end.
  char name[FF_NAME_SIZE];
  // Zero.
  uint64_t reserved[4];
} ff_thread;

// One frame of a thread.
typedef struct ff_frame {
  // `sizeof(ff_frame)`, to be set by the caller.
  uint32_t size;
  // An `ff_trust`.
  uint32_t trust;
  // Where the thread was, without an authentication code.
  uint64_t address;
  // The address to look up in tables and symbols: inside the instruction that was executing, one less than a return address.
  uint64_t lookup;
  // The stack pointer in this frame.
  uint64_t sp;
  // Zero.
  uint64_t reserved[4];
} ff_frame;

// How the process is set up. Zero in each field is the default.
typedef struct ff_config {
  // `sizeof(ff_config)`.
  uint32_t size;
  // Linux: the signal that stops threads. Zero is SIGURG; runtimes that use that themselves, as Go's does, need another. The
  // first call in a process decides.
  int32_t signal;
  // Zero.
  uint64_t reserved[4];
} ff_config;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of this library, as a number: major, minor and patch, two decimal digits each.
//
// # Signal safety
// Safe.
uint32_t ff_version(void);

// The calling thread's id, as this library names threads: on Linux as `gettid` returns it, on Mach the name of its port.
//
// # Signal safety
// Safe.
int32_t ff_current_thread(void);

// Captures the calling thread, from its caller outward. The earlier capture is lost.
//
// # Safety
// `core` is null or from `ff_init`.
//
// # Signal safety
// Safe, with about 16 KiB of stack. Does not wait.
enum ff_error ff_capture_self(struct ff_core *core);

// Captures the calling thread as a signal has interrupted it. `ucontext` is the third argument of a handler that was installed with
// `SA_SIGINFO`. The earlier capture is lost.
//
// # Errors
// `FF_ERROR_CONTEXT`.
//
// # Safety
// `core` is null or from `ff_init`; `ucontext` is null or the handler's, which has not returned.
//
// # Signal safety
// Safe, with about 16 KiB of stack: on an alternate one in handlers of crashes, of 64 KiB with what the kernel puts there. Does not wait.
enum ff_error ff_capture_context(struct ff_core *core,
                                 const void *ucontext);

// Captures all threads of the process for a handler of crashes: the calling one first, as the signal has interrupted it. The earlier
// capture is lost. Linux only. `options` may be null; its `first` is not looked at.
//
// # Errors
// `FF_ERROR_CONTEXT`, `FF_ERROR_ARGUMENT` if too many are left out, `FF_ERROR_UNSUPPORTED` on other systems.
//
// # Safety
// As of `ff_capture_context`; `options` is null or valid.
//
// # Signal safety
// Safe, with about 16 KiB of stack. Waits for 800 ms at most, and for as long as the options say.
enum ff_error ff_capture_all_from_context(struct ff_core *core,
                                          const void *ucontext,
                                          const struct ff_options *options);

// Captures one thread, `ff_current_thread`'s own included; one that cannot be stopped is there with the reason. The earlier capture
// is lost.
//
// # Errors
// `FF_ERROR_ARGUMENT` for what can be no id.
//
// # Safety
// `core` is null or from `ff_init`.
//
// # Signal safety
// Safe, with about 16 KiB of stack. Waits for 100 ms at most.
enum ff_error ff_capture_thread(struct ff_core *core,
                                int32_t thread);

// Captures all threads of the process, `FF_MAX_THREADS` at most. None is held for longer than its registers and its stack are
// copied. The earlier capture is lost. `options` may be null.
//
// # Errors
// `FF_ERROR_THREADS`, `FF_ERROR_ARGUMENT` if too many are left out.
//
// # Safety
// `core` is null or from `ff_init`; `options` is null or valid.
//
// # Signal safety
// Safe, with about 16 KiB of stack. Waits, but never for longer than the options say.
enum ff_error ff_capture_all(struct ff_core *core,
                             const struct ff_options *options);

// An error in words, for ever valid; never null.
//
// # Signal safety
// Safe.
const char *ff_strerror(int32_t error);

// Why a walk has ended, in words, for ever valid; never null. `stop` is `ff_thread.stop`.
//
// # Signal safety
// Safe.
const char *ff_stop_text(uint32_t stop);

// Why a thread was not held, or not in a better way, in words. Copies at most `size` bytes with a zero at their end to `text`, and
// returns how many bytes the words have without it. `why` is `ff_thread.why`.
//
// # Safety
// `text` is null, or has room for `size` bytes.
//
// # Signal safety
// Safe.
size_t ff_why_text(uint32_t why,
                   char *text,
                   size_t size);

// Learns which images are loaded. Should be called before a capture if libraries may have been loaded since: a frame outside of
// known code ends a walk. `ff_init` has called it once.
//
// # Errors
// `FF_ERROR_IMAGES`.
//
// # Safety
// `core` is null or from `ff_init`.
//
// # Signal safety
// Safe: no lock of the loader's is taken.
enum ff_error ff_refresh_images(struct ff_core *core);

// The image that an address lies in. For a frame that is `ff_frame.lookup`.
//
// # Errors
// `FF_ERROR_NOT_FOUND` if it lies in none.
//
// # Safety
// `core` is null or from `ff_init`; `image` is null or valid.
//
// # Signal safety
// Safe.
enum ff_error ff_image_find(struct ff_core *core, uint64_t address, struct ff_image *image);

// An image by its number from 0 on, in the order of addresses; `FF_ERROR_NOT_FOUND` behind the last.
//
// # Safety
// `core` is null or from `ff_init`; `image` is null or valid.
//
// # Signal safety
// Safe.
enum ff_error ff_image_at(struct ff_core *core, size_t index, struct ff_image *image);

// Where the function begins that an address lies in, as far as the unwind tables of its image know: addresses from there on can be
// compared between runs.
//
// # Errors
// `FF_ERROR_NOT_FOUND` if they do not know.
//
// # Safety
// `core` is null or from `ff_init`; `start` is null or can be written to.
//
// # Signal safety
// Safe.
enum ff_error ff_function_start(struct ff_core *core,
                                uint64_t address,
                                uint64_t *start);

// How many threads the latest capture has, and for how many there was no room. `dropped` may be null.
//
// # Safety
// `core` is null or from `ff_init`; the others are null or can be written to.
//
// # Signal safety
// Safe.
enum ff_error ff_thread_count(struct ff_core *core, size_t *count, size_t *dropped);

// A thread of the latest capture, by its number from 0 on.
//
// # Errors
// `FF_ERROR_NOT_FOUND` behind the last.
//
// # Safety
// `core` is null or from `ff_init`; `thread` is null or valid.
//
// # Signal safety
// Safe.
enum ff_error ff_thread_at(struct ff_core *core, size_t index, struct ff_thread *thread);

// A frame of a thread of the latest capture, both by their numbers from 0 on; the innermost frame is the first.
//
// # Errors
// `FF_ERROR_NOT_FOUND` behind the last thread, or its last frame.
//
// # Safety
// `core` is null or from `ff_init`; `frame` is null or valid.
//
// # Signal safety
// Safe.
enum ff_error ff_frame_at(struct ff_core *core,
                          size_t thread,
                          size_t index,
                          struct ff_frame *frame);

// How many bytes `ff_init` needs; not more than `FF_STORAGE_SIZE`.
//
// # Signal safety
// Safe.
size_t ff_storage_size(void);

// Sets up the process, if that was not done yet, and `storage`, whose address is a multiple of `FF_STORAGE_ALIGN`. It is the
// library's from then on and is never given back; nothing else is allocated. `config` may be null. `*core` is the same address.
//
// # Errors
// `FF_ERROR_STORAGE` if `storage` is too small or badly aligned, `FF_ERROR_INIT`, `FF_ERROR_IMAGES`.
//
// # Safety
// `storage` has `size` bytes, which nobody else uses; `config` is null or valid; `core` is null or can be written to.
//
// # Signal safety
// Not for signal handlers.
enum ff_error ff_init(void *storage,
                      size_t size,
                      const struct ff_config *config,
                      struct ff_core **core);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FREEZEFRAME_UNWIND_H */
