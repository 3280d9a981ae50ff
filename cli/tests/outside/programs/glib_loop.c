// A GLib program: its fifth event takes long. Ends with 6.
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static GMainLoop *loop;
static const char *what = "nothing";

static void import_mail(void) {
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

static gboolean tick(gpointer unused) {
    static int number;
    (void)unused;
    number++;
    if (number == 5 && !strcmp(what, "freeze"))
        import_mail();
    if (number == 5 && !strcmp(what, "dialog"))
        ask_user();
    if (number == 10)
        g_main_loop_quit(loop);
    return number < 10;
}

int main(int count, char **words) {
    if (count > 1)
        what = words[1];
    loop = g_main_loop_new(NULL, FALSE);
    g_timeout_add(70, tick, NULL);
    printf("begins\n");
    fflush(stdout);
    g_main_loop_run(loop);
    printf("ends\n");
    return 6;
}
