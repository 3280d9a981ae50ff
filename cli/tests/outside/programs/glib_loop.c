// A GLib program: its fifth event takes long, or does something unusual. Tells what it has in the end, and ends with 6.
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static GMainLoop *loop;
static const char *what = "nothing";
static int polls;

static __attribute__((noinline)) void import_mail(void) {
    g_usleep(700000);
}

static gboolean quit(gpointer unused) {
    (void)unused;
    g_main_loop_quit(loop);
    return FALSE;
}

// A dialog: a loop inside an event, which waits for its user.
static void ask_user(void) {
    GMainLoop *outer = loop;
    loop = g_main_loop_new(NULL, FALSE);
    g_timeout_add(700, quit, NULL);
    g_main_loop_run(loop);
    g_main_loop_unref(loop);
    loop = outer;
}

// A loop of its own inside an event, in which nothing of the program's goes on.
static __attribute__((noinline)) void wait_elsewhere(void) {
    GMainContext *context = g_main_context_new();
    GMainLoop *outer = loop;
    loop = g_main_loop_new(context, FALSE);
    GSource *source = g_timeout_source_new(700);
    g_source_set_callback(source, quit, NULL, NULL);
    g_source_attach(source, context);
    g_main_context_push_thread_default(context);
    g_main_loop_run(loop);
    g_main_context_pop_thread_default(context);
    loop = outer;
}

static gint counting_poll(GPollFD *fds, guint count, gint timeout) {
    polls++;
    return g_poll(fds, count, timeout);
}

// A poll function of the program's own.
static void set_poll(void) {
    printf("before: %d\n", g_main_context_get_poll_func(NULL) == g_poll);
    g_main_context_set_poll_func(NULL, counting_poll);
    printf("set: %d\n", g_main_context_get_poll_func(NULL) == counting_poll);
}

static gboolean ignore(gpointer unused) {
    (void)unused;
    return TRUE;
}

// A child that is not replaced by another program, and runs the loop on by itself.
static void fork_and_work(void) {
    pid_t child = fork();
    if (!child) {
        g_timeout_add(50, ignore, NULL);
        for (int n = 0; n < 5; n++)
            g_main_context_iteration(NULL, TRUE);
        g_usleep(700000);
        _exit(3);
    }
}

static gboolean tick(gpointer unused) {
    static int number;
    (void)unused;
    number++;
    if (number == 5 && !strcmp(what, "freeze"))
        import_mail();
    if (number == 5 && !strcmp(what, "dialog"))
        ask_user();
    if (number == 5 && !strcmp(what, "elsewhere"))
        wait_elsewhere();
    if (number == 5 && !strcmp(what, "poll"))
        set_poll();
    if (number == 5 && !strcmp(what, "fork"))
        fork_and_work();
    if (number == 15)
        g_main_loop_quit(loop);
    return number < 15;
}

int main(int count, char **words) {
    if (count > 1)
        what = words[1];
    loop = g_main_loop_new(NULL, FALSE);
    g_timeout_add(70, tick, NULL);
    printf("begins\n");
    fflush(stdout);
    if (!strcmp(what, "steps"))
        for (int n = 0; n < 10; n++)
            g_main_context_iteration(NULL, TRUE);
    else
        g_main_loop_run(loop);
    printf("%s\n", polls > 3 ? "polled" : "ends");
    for (int number = 0; number < 64; number++) {
        struct stat facts;
        if (!fstat(number, &facts))
            printf("open %d %o\n", number, facts.st_mode & S_IFMT);
    }
    printf("preload %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "none");
    if (!strcmp(what, "fork")) {
        int status = 0;
        wait(&status);
        printf("child %d\n", WEXITSTATUS(status));
    }
    // After the loop: nobody waits for an event any more.
    g_usleep(400000);
    return 6;
}
