/* A GLib program that blocks where it should not, and one that does not. The tests load it, watch its context, and run one of
 * its loops. */
#include <glib.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* As the adapter has it. */
G_STATIC_ASSERT(sizeof(GSource) == 12 * sizeof(void *));
G_STATIC_ASSERT(sizeof(GSourceFuncs) == 6 * sizeof(void *));

typedef struct {
  GMainContext *context;
  GMainLoop *loop;
  /* Asked again and again while the program blocks or lingers: whether it may go on. */
  gboolean (*enough)(void *);
  void *asked;
  /* Sources that block do so once. */
  gboolean has_blocked;
  /* How it blocks, for a while. */
  void (*wait)(void);
} Program;

static void wait_by_sleeping(void) { g_usleep(5000); }

__attribute__((noinline)) void block_for_too_long(Program *program) {
  while (!program->enough(program->asked))
    program->wait();
}

Program *program_new(gboolean global, gboolean (*enough)(void *), void *asked) {
  Program *program = g_new0(Program, 1);
  program->context = global ? g_main_context_ref(g_main_context_default()) : g_main_context_new();
  program->loop = g_main_loop_new(program->context, FALSE);
  program->enough = enough;
  program->asked = asked;
  program->wait = wait_by_sleeping;
  return program;
}

GMainContext *program_context(Program *program) { return program->context; }

void program_free(Program *program) {
  g_main_loop_unref(program->loop);
  g_main_context_unref(program->context);
  g_free(program);
}

static void call(Program *program, GSource *source, GSourceFunc callback) {
  g_source_set_callback(source, callback, program, NULL);
  g_source_attach(source, program->context);
  g_source_unref(source);
}

static void call_after(Program *program, guint ms, GSourceFunc callback) {
  call(program, g_timeout_source_new(ms), callback);
}

static gboolean quit(gpointer data) {
  g_main_loop_quit(((Program *)data)->loop);
  return G_SOURCE_REMOVE;
}

static void run(Program *program) { g_main_loop_run(program->loop); }

/* The loop turns for a while after that. */
__attribute__((noinline)) void block_and_quit(Program *program) {
  block_for_too_long(program);
  call_after(program, 20, quit);
}

__attribute__((noinline)) gboolean callback_that_blocks(gpointer data) {
  block_and_quit(data);
  return G_SOURCE_REMOVE;
}

void freeze_in_timeout(Program *program) {
  call_after(program, 20, callback_that_blocks);
  run(program);
}

void freeze_in_idle(Program *program) {
  call(program, g_idle_source_new(), callback_that_blocks);
  run(program);
}

/* Waits that look like the loop's own. */
static int silent_socket(void) {
  static int sockets[2];
  if (sockets[0] == 0)
    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
  return sockets[0];
}

static void wait_by_poll(void) {
  struct pollfd entry = {.fd = silent_socket(), .events = POLLIN};
  poll(&entry, 1, 300);
}

static void wait_by_poll_of_nothing(void) { poll(NULL, 0, 300); }

static void wait_by_select(void) {
  struct timeval timeout = {.tv_usec = 300000};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(silent_socket(), &set);
  select(silent_socket() + 1, &set, NULL, NULL, &timeout);
}

static void wait_by_select_of_nothing(void) {
  struct timeval timeout = {.tv_usec = 300000};
  select(0, NULL, NULL, NULL, &timeout);
}

static void wait_for_a_child(void) { g_spawn_command_line_sync("sleep 0.3", NULL, NULL, NULL, NULL); }

static void wait_by_a_rare_call(void) {
  static unsigned long context;
  struct timespec timeout = {.tv_nsec = 300000000};
  char events[256];
  if (context == 0)
    syscall(SYS_io_setup, 4, &context);
  syscall(SYS_io_getevents, context, 1L, 4L, events, &timeout);
}

static gboolean quit_private(gpointer data) {
  g_main_loop_quit(data);
  return G_SOURCE_REMOVE;
}

static void wait_by_a_private_loop(void) {
  GMainContext *context = g_main_context_new();
  GMainLoop *loop = g_main_loop_new(context, FALSE);
  GSource *source = g_timeout_source_new(300);
  g_source_set_callback(source, quit_private, loop, NULL);
  g_source_attach(source, context);
  g_main_loop_run(loop);
  g_source_unref(source);
  g_main_loop_unref(loop);
  g_main_context_unref(context);
}

static void freeze_by(Program *program, void (*wait)(void)) {
  program->wait = wait;
  freeze_in_timeout(program);
}

void freeze_by_poll(Program *program) { freeze_by(program, wait_by_poll); }
void freeze_by_poll_of_nothing(Program *program) { freeze_by(program, wait_by_poll_of_nothing); }
void freeze_by_select(Program *program) { freeze_by(program, wait_by_select); }
void freeze_by_select_of_nothing(Program *program) { freeze_by(program, wait_by_select_of_nothing); }
void freeze_by_a_child(Program *program) { freeze_by(program, wait_for_a_child); }
void freeze_by_a_rare_call(Program *program) { freeze_by(program, wait_by_a_rare_call); }
void freeze_by_a_private_loop(Program *program) { freeze_by(program, wait_by_a_private_loop); }

/* Sources of the program's own kind. */
typedef struct {
  GSource source;
  Program *program;
} OwnSource;

static GSource *own_source(Program *program, GSourceFuncs *funcs) {
  GSource *source = g_source_new(funcs, sizeof(OwnSource));
  ((OwnSource *)source)->program = program;
  return source;
}

static void block_once(GSource *source) {
  Program *program = ((OwnSource *)source)->program;
  if (!program->has_blocked) {
    program->has_blocked = TRUE;
    block_and_quit(program);
  }
}

static gboolean ready(GSource *source, gint *timeout) {
  *timeout = 0;
  return !((OwnSource *)source)->program->has_blocked;
}

static gboolean not_ready(GSource *source) { return FALSE; }

static gboolean dispatch_that_blocks(GSource *source, GSourceFunc callback, gpointer data) {
  block_once(source);
  return G_SOURCE_REMOVE;
}

static gboolean prepare_that_blocks(GSource *source, gint *timeout) {
  block_once(source);
  *timeout = 20;
  return FALSE;
}

static gboolean check_that_blocks(GSource *source) {
  block_once(source);
  return FALSE;
}

void freeze_in_dispatch(Program *program) {
  static GSourceFuncs funcs = {.prepare = ready, .dispatch = dispatch_that_blocks};
  call(program, own_source(program, &funcs), NULL);
  run(program);
}

void freeze_in_prepare(Program *program) {
  static GSourceFuncs funcs = {.prepare = prepare_that_blocks, .check = not_ready};
  GSource *source = own_source(program, &funcs);
  g_source_set_priority(source, G_PRIORITY_LOW);
  call(program, source, NULL);
  run(program);
}

static gboolean wake_up(gpointer data) { return G_SOURCE_REMOVE; }

void freeze_in_check(Program *program) {
  static GSourceFuncs funcs = {.prepare = NULL, .check = check_that_blocks};
  GSource *source = own_source(program, &funcs);
  g_source_set_priority(source, G_PRIORITY_HIGH);
  call(program, source, NULL);
  call_after(program, 20, wake_up);
  run(program);
}

/* Runs another loop inside a callback. */
__attribute__((noinline)) void run_nested(Program *program, guint ms, GSourceFunc callback) {
  GMainLoop *outer = program->loop;
  program->loop = g_main_loop_new(program->context, FALSE);
  call_after(program, ms, callback);
  run(program);
  g_main_loop_unref(program->loop);
  program->loop = outer;
}

static gboolean nest_and_quit(gpointer data) {
  run_nested(data, 20, callback_that_blocks);
  call_after(data, 20, quit);
  return G_SOURCE_REMOVE;
}

void freeze_in_nested_run(Program *program) {
  call_after(program, 20, nest_and_quit);
  run(program);
}

__attribute__((noinline)) gboolean nest_and_block(gpointer data) {
  run_nested(data, 20, quit);
  block_and_quit(data);
  return G_SOURCE_REMOVE;
}

void freeze_after_nested_run(Program *program) {
  call_after(program, 20, nest_and_block);
  run(program);
}

/* Another loop waits for long inside a callback: no freeze, since it turns. */
static gboolean quit_when_enough(gpointer data) {
  Program *program = data;
  if (!program->enough(program->asked))
    return G_SOURCE_CONTINUE;
  return quit(data);
}

static gboolean nest_for_long(gpointer data) {
  run_nested(data, 100, quit_when_enough);
  call_after(data, 20, quit);
  return G_SOURCE_REMOVE;
}

void wait_in_nested_run(Program *program) {
  call_after(program, 20, nest_for_long);
  run(program);
}

/* Nothing to do: wakes up once, in the end. */
static gpointer quit_later(gpointer data) {
  Program *program = data;
  while (!program->enough(program->asked))
    g_usleep(5000);
  g_main_loop_quit(program->loop);
  return NULL;
}

void stay_idle(Program *program) {
  GThread *thread = g_thread_new("quit-later", quit_later, program);
  run(program);
  g_thread_join(thread);
}

/* Always something to do: a source that is ready whenever it is asked. */
void never_wait(Program *program) {
  call(program, g_idle_source_new(), quit_when_enough);
  run(program);
}

/* The same, by a program that never lets its loop wait. */
void poll_without_waiting(Program *program) {
  while (!program->enough(program->asked))
    g_main_context_iteration(program->context, FALSE);
}

/* Somebody sets a poll function, while the loop runs. */
static gint others_poll(GPollFD *fds, guint count, gint timeout) { return g_poll(fds, count, timeout); }

static gboolean set_others_poll(gpointer data) {
  g_main_context_set_poll_func(((Program *)data)->context, others_poll);
  return G_SOURCE_REMOVE;
}

void run_with_others_poll(Program *program) {
  call_after(program, 20, set_others_poll);
  call_after(program, 100, quit_when_enough);
  run(program);
}

void freeze_with_others_poll(Program *program) {
  call_after(program, 20, set_others_poll);
  call_after(program, 60, callback_that_blocks);
  run(program);
}

/* A program that drives the context by itself, as those do that have another loop of their own. */
static void turn_by_hand(Program *program) {
  GPollFD fds[16];
  gint priority, timeout, count;
  g_main_context_prepare(program->context, &priority);
  count = g_main_context_query(program->context, priority, &timeout, fds, G_N_ELEMENTS(fds));
  g_poll(fds, count, timeout);
  g_main_context_check(program->context, priority, fds, count);
  g_main_context_dispatch(program->context);
}

static void drive_by_hand(Program *program) {
  g_main_context_acquire(program->context);
  while (!program->has_blocked)
    turn_by_hand(program);
  g_main_context_release(program->context);
}

__attribute__((noinline)) gboolean block_and_leave(gpointer data) {
  Program *program = data;
  block_for_too_long(program);
  program->has_blocked = TRUE;
  return G_SOURCE_REMOVE;
}

static gboolean leave_when_enough(gpointer data) {
  Program *program = data;
  program->has_blocked = program->enough(program->asked);
  return G_SOURCE_CONTINUE;
}

void freeze_driven_by_hand(Program *program) {
  call_after(program, 20, block_and_leave);
  drive_by_hand(program);
}

void run_driven_by_hand(Program *program) {
  call_after(program, 100, leave_when_enough);
  drive_by_hand(program);
}
