/* A queue that is watched by pings: its thread works on one task for too long, which the callback hears and the record has. Then
 * a callback that stops its own monitor, and a crash of a child into the same file. */
#define _GNU_SOURCE
#include "check.h"
#include <freezeframe.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t posted;
static ff_monitor *asked;
static volatile int phases[5], stopped;

static void post(void *context, ff_monitor *monitor, uint64_t ping) {
    CHECK(strcmp(context, "context") == 0);
    pthread_mutex_lock(&lock);
    posted = ping, asked = monitor;
    pthread_mutex_unlock(&lock);
}

static int32_t is_waiting(void *context) { (void)context; return 0; }

static void on_freeze(void *context, const ff_freeze *freeze) {
    CHECK(context == (void *)phases && strcmp(freeze->component, "queue") == 0 && freeze->size == sizeof *freeze);
    phases[freeze->phase]++;
    if (freeze->phase == FF_PHASE_DETECTED) CHECK(freeze->duration_ns >= 150000000 && freeze->record == 1 && freeze->cause == 4);
}

static void stops(void *monitor, const ff_freeze *freeze) {
    if (freeze->phase == FF_PHASE_DETECTED && ff_monitor_stop(*(ff_monitor **)monitor) == FF_MONITOR_OK) stopped = 1;
}

__attribute__((noinline)) static int long_task(void) { return usleep(700000); }

static void turn(void) {
    pthread_mutex_lock(&lock);
    uint64_t ping = posted;
    ff_monitor *monitor = asked;
    posted = 0;
    pthread_mutex_unlock(&lock);
    if (ping) {
        CHECK(ff_monitor_answer(monitor, ping) == FF_MONITOR_OK);
        CHECK(ff_monitor_answer(monitor, ping) == FF_MONITOR_ERROR_STATE);
    }
    usleep(2000);
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    ff_monitor_config config;
    CHECK(ff_monitor_config_init(&config) == FF_MONITOR_OK);
    config.component = "queue", config.app = "com.example.ping", config.report_file = argv[1];
    config.interval_ms = 40, config.misses = 5;
    config.on_freeze = on_freeze, config.context = (void *)phases;
    ff_monitor *monitor = NULL;
    CHECK(ff_monitor_start_ping(&config, post, is_waiting, "context", 0, &monitor) == FF_MONITOR_OK);
    CHECK(ff_monitor_transition(monitor, FF_ACTIVITY_ENTRY) == FF_MONITOR_ERROR_STATE);
    CHECK(ff_monitor_set_value(monitor, "document", "holiday") == FF_MONITOR_OK);
    CHECK(ff_monitor_breadcrumb(monitor, "opened the settings") == FF_MONITOR_OK);
    for (int n = 0; n < 50; n++) turn();
    CHECK(phases[FF_PHASE_DETECTED] == 0);
    CHECK(ff_monitor_expect(monitor, 10000, "a migration") == FF_MONITOR_OK && long_task() == 0);
    for (int n = 0; n < 20; n++) turn();
    CHECK(ff_monitor_expect_end(monitor) == FF_MONITOR_OK && phases[FF_PHASE_DETECTED] == 0);
    CHECK(long_task() == 0);
    for (int n = 0; n < 1000 && !phases[FF_PHASE_RECOVERED]; n++) turn();
    CHECK(phases[FF_PHASE_DETECTED] == 1 && phases[FF_PHASE_RECOVERED] == 1);
    ff_statistics statistics = { .size = sizeof statistics };
    CHECK(ff_monitor_statistics(monitor, &statistics) == FF_MONITOR_OK && statistics.freezes == 1);
    CHECK(statistics.watching == 1 && statistics.capped == 0 && statistics.never_idle == 0);
    CHECK(ff_monitor_stop(monitor) == FF_MONITOR_OK);

    ff_records *records = NULL;
    CHECK(ff_records_read(argv[1], &records) == FF_MONITOR_OK && ff_records_count(records) == 1);
    ff_record record = { .size = sizeof record };
    CHECK(ff_record_at(records, 0, &record) == FF_MONITOR_OK && record.kind == 1 && record.outcome == 2 && record.cause == 4);
    CHECK(record.complete == 1 && record.duration_ns >= 500000000 && strcmp(record.component, "queue") == 0);
    CHECK(strlen(record.uuid) >= 32 && record.threads >= 1 && record.signal == 0);
    const char *json = ff_record_json(records, 0), *text = ff_record_text(records, 0);
    CHECK(strstr(json, "\"holiday\"") && strstr(json, "opened the settings") && strstr(text, "long_task"));
    ff_records_free(records);
    CHECK(ff_records_take(argv[1], &records) == FF_MONITOR_OK && ff_records_count(records) == 1);
    ff_records_free(records);

    ff_monitor *second = NULL;
    config.report_file = NULL, config.on_freeze = stops, config.context = &second;
    CHECK(ff_monitor_start(&config, &second) == FF_MONITOR_OK && ff_monitor_transition(second, FF_ACTIVITY_ENTRY) == FF_MONITOR_OK);
    CHECK(long_task() == 0 && stopped);
    CHECK(ff_monitor_transition(second, FF_ACTIVITY_EXIT) == FF_MONITOR_ERROR_STOPPED);

    pid_t child = fork();
    if (child == 0) {
        CHECK(ff_crash_install(argv[1], "com.example.ping", "1.0") == FF_MONITOR_OK);
        CHECK(ff_crash_install(argv[1], NULL, NULL) == FF_MONITOR_ERROR_ALREADY);
        abort();
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(ff_records_take(argv[1], &records) == FF_MONITOR_OK && ff_records_count(records) == 1);
    CHECK(ff_record_at(records, 0, &record) == FF_MONITOR_OK && record.kind == 2 && record.signal == SIGABRT);
    CHECK(strstr(ff_record_text(records, 0), "abort"));
    ff_records_free(records);
    puts("the freeze was caught");
    return 0;
}
