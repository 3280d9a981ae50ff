/*
 * freezeframe's monitor: notices that a run loop has stopped turning, takes the stacks while it stands, and leaves a report in a file.
 * Every function may be called with null pointers and in any state: it returns an error then. None is for signal handlers. Functions
 * may be called on every thread, where they do not say otherwise.
 *
 * A function returns `FF_MONITOR_ERROR_NULL` for a null pointer that it needs, `FF_MONITOR_ERROR_TEXT` for a text that is not UTF-8 with
 * a zero at its end, `FF_MONITOR_ERROR_SIZE` for a structure whose field `size` says that it is too small, `FF_MONITOR_ERROR_STOPPED` for a
 * monitor that was stopped, and `FF_MONITOR_ERROR_PANIC` for a mistake of the library's own. What it returns besides is said with it,
 * and by `ff_monitor_last_error` in words.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef FREEZEFRAME_H
#define FREEZEFRAME_H

/* Made from the Rust source by `tests/embed/headers --write`. */

#include <stddef.h>
#include <stdint.h>

// The version of this header, to be compared with `ff_monitor_version`.
#define FF_MONITOR_VERSION 100

// What a call returns: zero if all went well.
typedef enum ff_monitor_error {
  // All went well.
  FF_MONITOR_OK = 0,
  // A pointer that is needed is null.
  FF_MONITOR_ERROR_NULL = 1,
  // A text is not UTF-8.
  FF_MONITOR_ERROR_TEXT = 2,
  // An argument has a value that it cannot have.
  FF_MONITOR_ERROR_ARGUMENT = 3,
  // The monitor was stopped.
  FF_MONITOR_ERROR_STOPPED = 4,
  // Only the loop's thread may do that.
  FF_MONITOR_ERROR_THREAD = 5,
  // This monitor watches in another way, nothing is paused or expected, or the ping was answered already.
  FF_MONITOR_ERROR_STATE = 6,
  // The loop is watched already, or crashes of this process are reported already.
  FF_MONITOR_ERROR_ALREADY = 7,
  // The report file cannot be used.
  FF_MONITOR_ERROR_FILE = 8,
  // The system refused something.
  FF_MONITOR_ERROR_SYSTEM = 9,
  // There is no such record, or no room for another value.
  FF_MONITOR_ERROR_NOT_FOUND = 10,
  // This system, or this process, has no such thing.
  FF_MONITOR_ERROR_UNSUPPORTED = 11,
  // The field `size` of a structure is smaller than the structure.
  FF_MONITOR_ERROR_SIZE = 12,
  // A mistake in the library: it gave up the call.
  FF_MONITOR_ERROR_PANIC = 13,
} ff_monitor_error;

// What a loop is about to do, with the values of `CFRunLoopActivity`. A loop tells at least `FF_ACTIVITY_BEFORE_WAITING`, right
// before it waits for events, and `FF_ACTIVITY_AFTER_WAITING`, right after.
typedef enum ff_activity {
  // A run of the loop begins, perhaps inside a callback of another run.
  FF_ACTIVITY_ENTRY = 1,
  // About to handle timers.
  FF_ACTIVITY_BEFORE_TIMERS = 2,
  // About to handle sources.
  FF_ACTIVITY_BEFORE_SOURCES = 4,
  // About to wait.
  FF_ACTIVITY_BEFORE_WAITING = 32,
  // Woken up, about to handle what has come.
  FF_ACTIVITY_AFTER_WAITING = 64,
  // The run has ended.
  FF_ACTIVITY_EXIT = 128,
} ff_activity;

// A point in a freeze's life.
typedef enum ff_phase {
  // The threshold has passed. The stacks were taken just now.
  FF_PHASE_DETECTED = 1,
  // It goes on, and is more severe than before.
  FF_PHASE_WORSENED = 2,
  // The loop has turned again.
  FF_PHASE_RECOVERED = 3,
  // The monitor was stopped or paused before the end.
  FF_PHASE_LOST = 4,
} ff_phase;

// What was noticed.
typedef enum ff_kind {
  // Something that this version does not know.
  FF_KIND_UNKNOWN = 0,
  // A loop that does not turn.
  FF_KIND_FREEZE = 1,
  // A signal that ends the program.
  FF_KIND_CRASH = 2,
  // A loop that turns, but never waits.
  FF_KIND_NEVER_IDLE = 3,
  // A process that takes much of the processors for long.
  FF_KIND_CPU_HIGH = 4,
} ff_kind;

// How severe a freeze is, by its duration.
typedef enum ff_severity {
  // Nobody feels it.
  FF_SEVERITY_NONE = 0,
  // From 250 ms on.
  FF_SEVERITY_MICRO = 1,
  // From 500 ms on.
  FF_SEVERITY_FREEZE = 2,
  // From 2 s on.
  FF_SEVERITY_SEVERE = 3,
  // From 5 s on.
  FF_SEVERITY_UNRESPONSIVE = 4,
} ff_severity;

// Why a loop does not turn.
typedef enum ff_cause {
  // Nothing that is known speaks for any of the others.
  FF_CAUSE_UNKNOWN = 0,
  // Its thread computes.
  FF_CAUSE_COMPUTING = 1,
  // It waits for a lock.
  FF_CAUSE_LOCK = 2,
  // It waits for a file, a device or a pipe.
  FF_CAUSE_INPUT_OUTPUT = 3,
  // It sleeps for a set time.
  FF_CAUSE_SLEEPING = 4,
  // It waits for a child process.
  FF_CAUSE_CHILD = 5,
  // It waits for another thread, process or machine.
  FF_CAUSE_PEER = 6,
  // It waits for events, as a loop should: a false alarm, of which the callback does not hear.
  FF_CAUSE_IDLE = 7,
  // It could run, but got no processor.
  FF_CAUSE_STARVED = 8,
} ff_cause;

// How a freeze has ended.
typedef enum ff_outcome {
  // The monitor was stopped before the end.
  FF_OUTCOME_UNKNOWN = 0,
  // It goes on: its process is alive.
  FF_OUTCOME_ONGOING = 1,
  // The loop turned again.
  FF_OUTCOME_RECOVERED = 2,
  // The process ended in the middle of it.
  FF_OUTCOME_KILLED = 3,
} ff_outcome;

// What a program tells of itself.
typedef enum ff_app_state {
  // Nothing.
  FF_APP_STATE_UNKNOWN = 0,
  // Somebody looks at it.
  FF_APP_STATE_FOREGROUND = 1,
  // Nobody does.
  FF_APP_STATE_BACKGROUND = 2,
} ff_app_state;

// A monitor. It is never freed: what is done with one that was stopped is an error.
typedef struct ff_monitor ff_monitor;

// The records of a report file, in memory.
typedef struct ff_records ff_records;

// A freeze, as the callback hears of it. Valid while the callback runs.
typedef struct ff_freeze {
  // The library's `sizeof(ff_freeze)`.
  uint32_t size;
  // An `ff_phase`.
  uint32_t phase;
  // An `ff_kind`.
  uint32_t kind;
  // An `ff_severity`.
  uint32_t severity;
  // An `ff_cause`.
  uint32_t cause;
  // 1 if it is counted in an earlier record of the same stack and has none of its own.
  uint32_t counted;
  // How long it has lasted.
  uint64_t duration_ns;
  // How long after the threshold it was noticed; zero later on.
  uint64_t detection_delay_ns;
  // The number of its record in the report file; zero if there is none.
  uint64_t record;
  // Which part of the program is watched.
  const char *component;
  // Zero.
  uint64_t reserved[4];
} ff_freeze;

// Called on a thread of the monitor's, while the loop may still be frozen. May call every function, `ff_monitor_stop` too.
typedef void (*ff_freeze_callback)(void *context, const struct ff_freeze *freeze);

// How a monitor is set up. `ff_monitor_config_init` fills in what is usual.
typedef struct ff_monitor_config {
  // `sizeof(ff_monitor_config)`.
  uint32_t size;
  // How long one timeout is; 0 is 50.
  uint32_t interval_ms;
  // How many timeouts in a row make a freeze; 0 is 5.
  uint32_t misses;
  // How many records are written in a day at most; 0 is 100.
  uint32_t daily_cap;
  // Not 0: each freeze gets a record, also of a stack that has one.
  uint32_t record_repeats;
  // Not 0: all threads are held at one time (Linux).
  uint32_t hold_together;
  // Not 0: a loop that turns but has not waited for so long is reported, too.
  uint32_t never_idle_ms;
  // Zero.
  uint32_t reserved_word;
  // Which part of the program is watched: `main`. Needed. Texts are UTF-8, and copied.
  const char *component;
  // The program's identifier; null: the executable's name.
  const char *app;
  // The program's version; may be null.
  const char *version;
  // The file that takes the reports, made if there is none; null: none.
  const char *report_file;
  // Hears of freezes; may be null.
  ff_freeze_callback on_freeze;
  // Handed to `on_freeze`.
  void *context;
  // Zero.
  uint64_t reserved[8];
} ff_monitor_config;

// Posts work to the loop: in its turn it calls `ff_monitor_answer(monitor, ping)`. Called on the monitor's thread, perhaps before
// the function that starts the monitor has returned; must not wait for the loop.
typedef void (*ff_ping_post)(void *context, struct ff_monitor *monitor, uint64_t ping);

// Whether the loop waits for events right now: not 0. Called on the monitor's thread.
typedef int32_t (*ff_ping_is_waiting)(void *context);

// A record's most important fields; all others are in its JSON. Texts are valid until `ff_records_free`.
typedef struct ff_record {
  // `sizeof(ff_record)`, to be set by the caller.
  uint32_t size;
  // An `ff_kind`.
  uint32_t kind;
  // An `ff_outcome`.
  uint32_t outcome;
  // An `ff_severity`; 0 of a crash.
  uint32_t severity;
  // An `ff_cause`; 0 of a crash.
  uint32_t cause;
  // The signal's number, of a crash; else 0.
  int32_t signal;
  // How many threads there are.
  uint32_t threads;
  // 1 if every byte of it was there and had the right checksum.
  uint32_t complete;
  // Its number in the file.
  uint64_t sequence;
  // How long the freeze lasted, as far as is known.
  uint64_t duration_ns;
  // When it was detected, in nanoseconds since the beginning of 1970.
  uint64_t wall_ns;
  // Identifies it.
  const char *uuid;
  // Which part of the program was watched.
  const char *component;
  // Zero.
  uint64_t reserved[4];
} ff_record;

// What a monitor has cost and seen so far.
typedef struct ff_statistics {
  // `sizeof(ff_statistics)`, to be set by the caller.
  uint32_t size;
  // 1 if a freeze would be noticed, unless the monitor is paused; 0 if the watcher has ended or is blind.
  uint32_t watching;
  // Freezes that were detected, false alarms included.
  uint64_t freezes;
  // Freezes whose loop waited for events after all.
  uint64_t false_alarms;
  // Freezes that are counted in an earlier record of the same stack.
  uint64_t counted;
  // How often the watcher has woken up.
  uint64_t wakeups;
  // Ticks that came too late to count.
  uint64_t late_ticks;
  // What the callback has not heard of: what waits while it is busy or hangs, and what found no place.
  uint64_t unheard;
  // Freezes that have no record since the day's number was reached.
  uint64_t capped;
  // Times in which the loop turned but never waited, if those are looked for.
  uint64_t never_idle;
  // Zero.
  uint64_t reserved[2];
} ff_statistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of this library, as a number: major, minor and patch, two decimal digits each.
uint32_t ff_monitor_version(void);

// Fills `config` with zeros, which are the defaults, and its size.
//
// # Safety
// `config` is null or can be written to.
enum ff_monitor_error ff_monitor_config_init(struct ff_monitor_config *config);

#if defined(__APPLE__)
// Watches the main thread's CFRunLoop in the common modes, from any thread. Apple's systems only.
//
// # Errors
// As of `ff_monitor_start`.
//
// # Safety
// `config` is null or valid; `monitor` is null or can be written to.
enum ff_monitor_error ff_monitor_start_main_run_loop(const struct ff_monitor_config *config,
                                                     struct ff_monitor **monitor);
#endif

// Installs handlers of SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP and SIGSYS, which write a record of the crash into the
// file at `path` and then let the process die as it would have: for good, once for the process, early. Monitors may write to the
// same file. The calling thread is protected. `app` and `version` may be null. Linux only.
//
// # Errors
// `FF_MONITOR_ERROR_FILE`, `FF_MONITOR_ERROR_ALREADY`, `FF_MONITOR_ERROR_SYSTEM`, `FF_MONITOR_ERROR_UNSUPPORTED` on other systems.
//
// # Safety
// All are null or texts.
enum ff_monitor_error ff_crash_install(const char *path,
                                       const char *app,
                                       const char *version);

// Gives the calling thread an alternate stack for good, so that an overflow of its own one is reported. Linux only.
enum ff_monitor_error ff_crash_protect_thread(void);

// An error in words, for ever valid; never null.
const char *ff_monitor_strerror(int32_t error);

// What the latest error of the calling thread was about, in words: those of `ff_monitor_strerror`, or better ones; empty before the
// first error, never null. Valid until the thread's next error.
const char *ff_monitor_last_error(void);

#if (defined(__linux__) || defined(__ANDROID__))
// Watches a `GMainContext`, the global default one if `context` is null, from its next turn on. To be called on the thread that
// runs it.
//
// # Errors
// As of `ff_monitor_start`; `FF_MONITOR_ERROR_UNSUPPORTED` if the process has no GLib loaded: nothing of it is linked.
//
// # Safety
// `config` is null or valid; `context` is null or a `GMainContext`; `monitor` is null or can be written to.
enum ff_monitor_error ff_monitor_start_glib(const struct ff_monitor_config *config,
                                            void *context,
                                            struct ff_monitor **monitor);
#endif

// Stops watching. The loop may be frozen all the while. Returns when the watcher has ended, or after one timeout. On any thread,
// from the callback too. The handle stays valid, and every later call with it is `FF_MONITOR_ERROR_STOPPED`.
//
// # Safety
// `monitor` is null or from a function that starts one.
enum ff_monitor_error ff_monitor_stop(struct ff_monitor *monitor);

// Watches a loop by pings. `thread` is the id of the loop's thread (`gettid` on Linux, `mach_thread_self` on Apple's systems);
// 0 is the calling one. `is_waiting` may be null: the loop is then pinged at every timeout. `context` is handed to both.
//
// # Errors
// As of `ff_monitor_start`; `FF_MONITOR_ERROR_ARGUMENT` for what can be no thread.
//
// # Safety
// `config` is null or valid; `monitor` is null or can be written to.
enum ff_monitor_error ff_monitor_start_ping(const struct ff_monitor_config *config,
                                            ff_ping_post post,
                                            ff_ping_is_waiting is_waiting,
                                            void *context,
                                            int32_t thread,
                                            struct ff_monitor **monitor);

// Answers a ping, on the loop's thread. One that was answered already, or is not the latest, is `FF_MONITOR_ERROR_STATE` and
// harms nobody.
//
// # Safety
// `monitor` is null or from a function that starts one.
enum ff_monitor_error ff_monitor_answer(struct ff_monitor *monitor,
                                        uint64_t ping);

// Reads what earlier runs have left in the file at `path` and makes room for new records: once, before a monitor opens the file. No
// file is no error: there are no records then. Names of functions are looked up.
//
// # Errors
// `FF_MONITOR_ERROR_FILE`.
//
// # Safety
// `path` is null or a text; `records` is null or can be written to.
enum ff_monitor_error ff_records_take(const char *path,
                                      struct ff_records **records);

// Reads the file at `path` and leaves it as it is. A monitor may write to it meanwhile. Names of functions are looked up.
//
// # Errors
// `FF_MONITOR_ERROR_FILE`, also if there is none.
//
// # Safety
// As of `ff_records_take`.
enum ff_monitor_error ff_records_read(const char *path,
                                      struct ff_records **records);

// How many records there are; none for null.
//
// # Safety
// `records` is null, or was given and not freed.
size_t ff_records_count(const struct ff_records *records);

// The most important fields of a record, by its number from 0 on, the oldest first.
//
// # Errors
// `FF_MONITOR_ERROR_NOT_FOUND` behind the last.
//
// # Safety
// As of `ff_records_count`; `record` is null or valid.
enum ff_monitor_error ff_record_at(const struct ff_records *records, size_t index, struct ff_record *record);

// A record with every field, as one JSON object; null if there is no such record. Valid until `ff_records_free`.
//
// # Safety
// As of `ff_records_count`.
const char *ff_record_json(const struct ff_records *records,
                           size_t index);

// A record for people, with the stacks of all threads; null if there is no such record. Valid until `ff_records_free`.
//
// # Safety
// As of `ff_records_count`.
const char *ff_record_text(const struct ff_records *records,
                           size_t index);

// Frees the records and what they point to. Null is let be.
//
// # Safety
// `records` is null, or was given and not freed.
void ff_records_free(struct ff_records *records);

// Watches the loop of the calling thread, which tells by `ff_monitor_transition` what it does.
//
// # Errors
// `FF_MONITOR_ERROR_ALREADY` if the loop is watched by another monitor, `FF_MONITOR_ERROR_FILE`, `FF_MONITOR_ERROR_ARGUMENT` for a
// threshold that cannot be, `FF_MONITOR_ERROR_SYSTEM` if there can be no further thread.
//
// # Safety
// `config` is null or valid; `monitor` is null or can be written to.
enum ff_monitor_error ff_monitor_start(const struct ff_monitor_config *config,
                                       struct ff_monitor **monitor);

// Tells what the loop is about to do: an `ff_activity`. On the loop's thread only. Costs a clock read and a few stores.
//
// # Errors
// `FF_MONITOR_ERROR_THREAD`, `FF_MONITOR_ERROR_ARGUMENT` for another number, `FF_MONITOR_ERROR_STATE` if the monitor watches in another
// way.
//
// # Safety
// `monitor` is null or from a function that starts one.
enum ff_monitor_error ff_monitor_transition(struct ff_monitor *monitor,
                                            int32_t activity);

// Stops counting until `ff_monitor_resume`: while the loop is known not to turn. Pauses add up.
//
// # Safety
// `monitor` is null or from a function that starts one.
enum ff_monitor_error ff_monitor_pause(struct ff_monitor *monitor);

// Ends one pause. `FF_MONITOR_ERROR_STATE` if there is none.
//
// # Safety
// As of `ff_monitor_pause`.
enum ff_monitor_error ff_monitor_resume(struct ff_monitor *monitor);

// Announces that the loop will not turn for up to so long from now on, and why: until `ff_monitor_expect_end` nothing is called a
// freeze before that time. Expectations nest.
//
// # Safety
// As of `ff_monitor_pause`; `why` is null or a text.
enum ff_monitor_error ff_monitor_expect(struct ff_monitor *monitor,
                                        uint64_t duration_ms,
                                        const char *why);

// Ends the latest expectation. `FF_MONITOR_ERROR_STATE` if there is none.
//
// # Safety
// As of `ff_monitor_pause`.
enum ff_monitor_error ff_monitor_expect_end(struct ff_monitor *monitor);

// Sets a value that each later report of a freeze has: 16 names of 32 bytes, values of 128; what is longer is cut off.
// `FF_MONITOR_ERROR_ARGUMENT` if the name is empty, `FF_MONITOR_ERROR_NOT_FOUND` if there is no room for another name.
//
// # Safety
// As of `ff_monitor_pause`; `name` and `value` are null or texts.
enum ff_monitor_error ff_monitor_set_value(struct ff_monitor *monitor,
                                           const char *name,
                                           const char *value);

// Leaves a breadcrumb: what the program does just now. The latest 16 are in each report; of each, 96 bytes.
//
// # Safety
// As of `ff_monitor_pause`; `words` is null or a text.
enum ff_monitor_error ff_monitor_breadcrumb(struct ff_monitor *monitor, const char *words);

// Tells reports whether somebody looks at the program. `state` is an `ff_app_state`; others are `FF_MONITOR_ERROR_ARGUMENT`.
//
// # Safety
// As of `ff_monitor_pause`.
enum ff_monitor_error ff_monitor_set_app_state(struct ff_monitor *monitor,
                                               int32_t state);

// What the monitor has cost and seen so far.
//
// # Safety
// As of `ff_monitor_pause`; `statistics` is null or valid.
enum ff_monitor_error ff_monitor_statistics(struct ff_monitor *monitor, struct ff_statistics *statistics);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FREEZEFRAME_H */
