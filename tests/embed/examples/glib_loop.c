/* A GLib program, watched by its main context: one timer takes too long. */
#include <freezeframe.h>
#include <glib.h>
#include <stdio.h>

static GMainLoop *loop;

G_GNUC_NO_INLINE static gboolean import_mail(gpointer data) {
    (void)data;
    g_usleep(700 * 1000);
    return G_SOURCE_REMOVE;
}

static gboolean quit(gpointer data) {
    (void)data;
    g_main_loop_quit(loop);
    return G_SOURCE_REMOVE;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    ff_monitor_config config;
    ff_monitor_config_init(&config);
    config.component = "main";
    config.report_file = argv[1];
    ff_monitor *monitor = NULL;
    ff_monitor_error error = ff_monitor_start_glib(&config, NULL, &monitor);
    if (error) return fprintf(stderr, "%s: %s\n", ff_monitor_strerror(error), ff_monitor_last_error()), 1;

    loop = g_main_loop_new(NULL, FALSE);
    g_timeout_add(100, import_mail, NULL);
    g_timeout_add(1200, quit, NULL);
    g_main_loop_run(loop);
    ff_monitor_stop(monitor);
    g_main_loop_unref(loop);

    ff_records *records = NULL;
    if (ff_records_take(argv[1], &records) || ff_records_count(records) != 1) return fputs("no record\n", stderr), 1;
    puts(ff_record_text(records, 0));
    ff_records_free(records);
    return 0;
}
