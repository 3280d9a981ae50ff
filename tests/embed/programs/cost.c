/* What calls cost: prints the best of many rounds. */
#define _GNU_SOURCE
#include "check.h"
#include <freezeframe.h>
#include <freezeframe_unwind.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static _Alignas(FF_STORAGE_ALIGN) unsigned char storage[FF_STORAGE_SIZE];
static ff_core *core;
static volatile int32_t waiter;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *waits(void *unused) {
    waiter = ff_current_thread();
    for (;;) pause();
    return unused;
}

#define COST(what, rounds, times, call)                                              \
    do {                                                                             \
        uint64_t best = UINT64_MAX;                                                  \
        for (int round = 0; round < (rounds); round++) {                             \
            uint64_t begun = now();                                                  \
            for (int time = 0; time < (times); time++) CHECK((call) == 0);           \
            uint64_t took = (now() - begun) / (times);                               \
            if (took < best) best = took;                                            \
        }                                                                            \
        printf("%-42s %8llu ns\n", what, (unsigned long long)best);                  \
    } while (0)

__attribute__((noinline)) static int deep(int frames) {
    if (frames == 0) { COST("the calling thread, 32 frames and more", 200, 10, ff_capture_self(core)); return 1; }
    return deep(frames - 1) + 1;
}

int main(void) {
    CHECK(ff_init(storage, sizeof storage, NULL, &core) == FF_OK);
    pthread_t thread;
    for (int n = 0; n < 15; n++) CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    usleep(50000);
    COST("images, nothing new", 50, 10, ff_refresh_images(core));
    CHECK(deep(32) == 33);
    COST("a thread that waits", 200, 10, ff_capture_thread(core, waiter));
    COST("all 16 threads", 100, 2, ff_capture_all(core, NULL));

    ff_monitor_config config;
    ff_monitor_config_init(&config);
    config.component = "main";
    ff_monitor *monitor = NULL;
    CHECK(ff_monitor_start(&config, &monitor) == FF_MONITOR_OK);
    COST("a transition", 200, 1000, ff_monitor_transition(monitor, FF_ACTIVITY_BEFORE_SOURCES));
    COST("a breadcrumb", 200, 1000, ff_monitor_breadcrumb(monitor, "opened the settings"));
    CHECK(ff_monitor_stop(monitor) == FF_MONITOR_OK);
    return 0;
}
