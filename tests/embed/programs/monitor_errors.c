/* Every function of freezeframe.h with null pointers, and in states in which it can do nothing. */
#include "check.h"
#include <freezeframe.h>
#include <pthread.h>
#include <string.h>

static void post(void *context, ff_monitor *monitor, uint64_t ping) { (void)context, (void)monitor, (void)ping; }

static void *other_thread(void *monitor) {
    CHECK(ff_monitor_transition(monitor, FF_ACTIVITY_ENTRY) == FF_MONITOR_ERROR_THREAD);
    CHECK(ff_monitor_breadcrumb(monitor, "from another thread") == FF_MONITOR_OK);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    ff_monitor_config config;
    ff_monitor *monitor = NULL;
    ff_records *records = NULL;
    ff_record record = { .size = sizeof record };
    ff_statistics statistics = { .size = sizeof statistics };

    CHECK(ff_monitor_version() == FF_MONITOR_VERSION);
    for (int error = -1; error < 16; error++) CHECK(strlen(ff_monitor_strerror(error)) > 5);
    CHECK(ff_monitor_last_error() != NULL);
    CHECK(ff_monitor_config_init(NULL) == FF_MONITOR_ERROR_NULL && ff_monitor_config_init(&config) == FF_MONITOR_OK);

    /* Null, everywhere. */
    CHECK(ff_monitor_start(NULL, NULL) == FF_MONITOR_ERROR_NULL && ff_monitor_start(NULL, &monitor) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_start(&config, &monitor) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_start_ping(NULL, NULL, NULL, NULL, 0, NULL) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_start_ping(&config, NULL, NULL, NULL, 0, &monitor) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_start_ping(NULL, post, NULL, NULL, 0, &monitor) == FF_MONITOR_ERROR_NULL);
#ifdef __linux__
    CHECK(ff_monitor_start_glib(NULL, NULL, NULL) == FF_MONITOR_ERROR_NULL);
#endif
    CHECK(ff_monitor_transition(NULL, 1) == FF_MONITOR_ERROR_NULL && ff_monitor_answer(NULL, 1) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_pause(NULL) == FF_MONITOR_ERROR_NULL && ff_monitor_resume(NULL) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_expect(NULL, 1, NULL) == FF_MONITOR_ERROR_NULL && ff_monitor_expect(NULL, 1, "x") == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_expect_end(NULL) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_set_value(NULL, NULL, NULL) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_set_value(NULL, "name", "value") == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_breadcrumb(NULL, "x") == FF_MONITOR_ERROR_NULL && ff_monitor_set_app_state(NULL, 1) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_statistics(NULL, NULL) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_statistics(NULL, &statistics) == FF_MONITOR_ERROR_NULL && ff_monitor_stop(NULL) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_records_take(NULL, NULL) == FF_MONITOR_ERROR_NULL && ff_records_take(NULL, &records) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_records_read(NULL, NULL) == FF_MONITOR_ERROR_NULL && ff_records_read(argv[1], NULL) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_records_count(NULL) == 0 && ff_record_at(NULL, 0, NULL) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_record_json(NULL, 0) == NULL && ff_record_text(NULL, 0) == NULL);
    ff_records_free(NULL);
    CHECK(ff_crash_install(NULL, NULL, NULL) == FF_MONITOR_ERROR_NULL && ff_crash_protect_thread() == FF_MONITOR_OK);

    /* What cannot be. */
    config.component = "main";
    config.size = 16;
    CHECK(ff_monitor_start(&config, &monitor) == FF_MONITOR_ERROR_SIZE);
    config.size = sizeof config;
    config.component = "\xff\xfe";
    CHECK(ff_monitor_start(&config, &monitor) == FF_MONITOR_ERROR_TEXT);
    config.component = "main";
    config.report_file = "/no/such/folder/file";
    CHECK(ff_monitor_start(&config, &monitor) == FF_MONITOR_ERROR_FILE && strstr(ff_monitor_last_error(), "/no/such/folder"));
    /* The words are of the latest error, not of the one before. */
    CHECK(ff_monitor_breadcrumb(NULL, "x") == FF_MONITOR_ERROR_NULL);
    CHECK(strcmp(ff_monitor_last_error(), ff_monitor_strerror(FF_MONITOR_ERROR_NULL)) == 0);
    CHECK(ff_records_read("/no/such/file", &records) == FF_MONITOR_ERROR_FILE && records == NULL);
    CHECK(ff_crash_install("/no/such/folder/file", NULL, NULL) == FF_MONITOR_ERROR_FILE);
    CHECK(ff_monitor_start_ping(&config, post, NULL, NULL, -1, &monitor) == FF_MONITOR_ERROR_ARGUMENT);
    config.report_file = NULL;
#ifdef __linux__
    CHECK(ff_monitor_start_glib(&config, NULL, &monitor) == FF_MONITOR_ERROR_UNSUPPORTED);
#endif
    CHECK(monitor == NULL);

    /* A monitor that runs. */
    config.report_file = argv[1];
    CHECK(ff_records_take(argv[1], &records) == FF_MONITOR_OK && ff_records_count(records) == 0);
    CHECK(ff_record_at(records, 0, &record) == FF_MONITOR_ERROR_NOT_FOUND && ff_record_json(records, 0) == NULL);
    ff_records_free(records);
    CHECK(ff_monitor_start(&config, &monitor) == FF_MONITOR_OK);
    ff_monitor *second = NULL;
    CHECK(ff_monitor_start(&config, &second) == FF_MONITOR_ERROR_ALREADY && second == NULL);
    CHECK(ff_monitor_transition(monitor, FF_ACTIVITY_ENTRY) == FF_MONITOR_OK);
    CHECK(ff_monitor_transition(monitor, 3) == FF_MONITOR_ERROR_ARGUMENT && ff_monitor_transition(monitor, -1) == FF_MONITOR_ERROR_ARGUMENT);
    CHECK(ff_monitor_transition(monitor, FF_ACTIVITY_BEFORE_WAITING) == FF_MONITOR_OK);
    CHECK(ff_monitor_answer(monitor, 1) == FF_MONITOR_ERROR_STATE);
    CHECK(ff_monitor_resume(monitor) == FF_MONITOR_ERROR_STATE && ff_monitor_expect_end(monitor) == FF_MONITOR_ERROR_STATE);
    CHECK(ff_monitor_pause(monitor) == FF_MONITOR_OK && ff_monitor_pause(monitor) == FF_MONITOR_OK);
    CHECK(ff_monitor_resume(monitor) == FF_MONITOR_OK && ff_monitor_resume(monitor) == FF_MONITOR_OK);
    CHECK(ff_monitor_resume(monitor) == FF_MONITOR_ERROR_STATE);
    CHECK(ff_monitor_expect(monitor, 100, "waits") == FF_MONITOR_OK && ff_monitor_expect_end(monitor) == FF_MONITOR_OK);
    CHECK(ff_monitor_expect(monitor, 100, NULL) == FF_MONITOR_ERROR_NULL && ff_monitor_breadcrumb(monitor, NULL) == FF_MONITOR_ERROR_NULL);
    for (int n = 0; n < 16; n++) {
        char name[8] = { 'n', (char)('a' + n), 0 };
        CHECK(ff_monitor_set_value(monitor, name, "value") == FF_MONITOR_OK);
    }
    CHECK(ff_monitor_set_value(monitor, "another", "value") == FF_MONITOR_ERROR_NOT_FOUND);
    CHECK(ff_monitor_set_value(monitor, "na", NULL) == FF_MONITOR_ERROR_NULL);
    CHECK(ff_monitor_set_value(monitor, "", "value") == FF_MONITOR_ERROR_ARGUMENT);
    CHECK(ff_monitor_set_app_state(monitor, 1) == FF_MONITOR_OK && ff_monitor_set_app_state(monitor, 9) == FF_MONITOR_ERROR_ARGUMENT);
    CHECK(ff_monitor_statistics(monitor, NULL) == FF_MONITOR_ERROR_NULL && ff_monitor_statistics(monitor, &statistics) == FF_MONITOR_OK);
    CHECK(statistics.freezes == 0);
    statistics.size = 4;
    CHECK(ff_monitor_statistics(monitor, &statistics) == FF_MONITOR_ERROR_SIZE);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other_thread, monitor) == 0 && pthread_join(thread, NULL) == 0);

    /* One that was stopped. */
    CHECK(ff_monitor_pause(monitor) == FF_MONITOR_OK && ff_monitor_stop(monitor) == FF_MONITOR_OK);
    CHECK(ff_monitor_stop(monitor) == FF_MONITOR_ERROR_STOPPED && ff_monitor_transition(monitor, 1) == FF_MONITOR_ERROR_STOPPED);
    CHECK(ff_monitor_answer(monitor, 1) == FF_MONITOR_ERROR_STOPPED && ff_monitor_pause(monitor) == FF_MONITOR_ERROR_STOPPED);
    CHECK(ff_monitor_resume(monitor) == FF_MONITOR_ERROR_STOPPED && ff_monitor_expect(monitor, 1, "x") == FF_MONITOR_ERROR_STOPPED);
    CHECK(ff_monitor_expect_end(monitor) == FF_MONITOR_ERROR_STOPPED && ff_monitor_set_value(monitor, "a", "b") == FF_MONITOR_ERROR_STOPPED);
    CHECK(ff_monitor_breadcrumb(monitor, "x") == FF_MONITOR_ERROR_STOPPED && ff_monitor_set_app_state(monitor, 1) == FF_MONITOR_ERROR_STOPPED);
    statistics.size = sizeof statistics;
    CHECK(ff_monitor_statistics(monitor, &statistics) == FF_MONITOR_ERROR_STOPPED);

    /* And another one for the same loop. */
    CHECK(ff_monitor_start(&config, &second) == FF_MONITOR_OK && second != monitor && ff_monitor_stop(second) == FF_MONITOR_OK);
    puts("every function returned its error");
    return 0;
}
