/* Captures of the stack walker that must be right: of the calling thread, of a thread that waits, of one that runs, of all, and
 * of what a signal has interrupted. Frames are told apart by where their functions begin. */
#define _GNU_SOURCE
#include "check.h"
#include <freezeframe_unwind.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static _Alignas(FF_STORAGE_ALIGN) unsigned char storage[FF_STORAGE_SIZE], for_signals[FF_STORAGE_SIZE];
static ff_core *core, *signals;
static volatile int runs = 1, spinning;
static volatile int32_t waiter_id, spinner_id;
static sem_t never, ready;

/* Which of a thread's frames is in the function at `function`, or -1. */
static int frame_in(ff_core *in, size_t thread, void (*function)(void)) {
    ff_frame frame = { .size = sizeof frame };
    for (int n = 0; ff_frame_at(in, thread, (size_t)n, &frame) == FF_OK; n++) {
        uint64_t start = 0;
        if (ff_function_start(in, frame.lookup, &start) == FF_OK && start == (uint64_t)(uintptr_t)function) return n;
    }
    return -1;
}
#define FRAME_IN(core, thread, function) frame_in(core, thread, (void (*)(void))(uintptr_t)(function))

static ff_thread at(ff_core *of, size_t index) {
    ff_thread thread = { .size = sizeof thread };
    CHECK(ff_thread_at(of, index, &thread) == FF_OK);
    return thread;
}

__attribute__((noinline)) static int captures_itself(void) {
    int error = ff_capture_self(core);
    __asm__ volatile("" : : : "memory");
    return error;
}

static void *waits(void *unused) {
    waiter_id = ff_current_thread();
    pthread_setname_np(pthread_self(), "waiter");
    sem_post(&ready);
    while (sem_wait(&never) != 0) {}
    return unused;
}

static void *spins(void *unused) {
    spinner_id = ff_current_thread();
    spinning = 1;
    while (runs) {}
    return unused;
}

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    CHECK(ff_capture_context(signals, context) == FF_OK);
}

__attribute__((noinline)) static int is_interrupted(void) {
    int failed = raise(SIGUSR1);
    __asm__ volatile("" : : : "memory");
    return failed;
}

int main(int argc, char **argv) {
    int stops = argc < 2 || strcmp(argv[1], "without-stopping") != 0;
    CHECK(ff_init(storage, sizeof storage, NULL, &core) == FF_OK);
    CHECK(ff_init(for_signals, sizeof for_signals, NULL, &signals) == FF_OK);

    CHECK(captures_itself() == FF_OK);
    ff_thread own = at(core, 0);
    CHECK(own.id == ff_current_thread() && own.id == getpid() && own.main == 1 && own.held == FF_HELD_ITSELF);
    CHECK(FRAME_IN(core, 0, captures_itself) == 0 && FRAME_IN(core, 0, main) == 1);
    CHECK(strcmp(ff_stop_text(own.stop), "end of stack") == 0);
    ff_frame first = { .size = sizeof first };
    ff_image image = { .size = sizeof image };
    CHECK(ff_frame_at(core, 0, 0, &first) == FF_OK && first.lookup == first.address - 1);
    CHECK(ff_image_find(core, first.lookup, &image) == FF_OK && image.start <= first.lookup && first.lookup < image.end);
    char path[4096] = "", link[4096] = "";
    memcpy(path, image.path, image.path_length);
    CHECK(readlink("/proc/self/exe", link, sizeof link - 1) > 0 && strcmp(path, link) == 0);

    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && is_interrupted() == 0);
    CHECK(FRAME_IN(signals, 0, on_signal) == -1 && FRAME_IN(signals, 0, is_interrupted) >= 0);
    CHECK(FRAME_IN(signals, 0, main) > FRAME_IN(signals, 0, is_interrupted) && at(signals, 0).stop == 1);

    if (stops) {
        pthread_t waiter, spinner;
        sem_init(&never, 0, 0), sem_init(&ready, 0, 0);
        CHECK(pthread_create(&waiter, NULL, waits, NULL) == 0 && pthread_create(&spinner, NULL, spins, NULL) == 0);
        sem_wait(&ready);
        while (!spinning) usleep(1000);
        usleep(20000);
        CHECK(ff_capture_thread(core, waiter_id) == FF_OK && FRAME_IN(core, 0, waits) > 0);
        CHECK(at(core, 0).held != FF_HELD_NOT && at(core, 0).stop == 1 && strcmp(at(core, 0).name, "waiter") == 0);
        CHECK(ff_capture_thread(core, spinner_id) == FF_OK && FRAME_IN(core, 0, spins) == 0);
        CHECK((at(core, 0).held == FF_HELD_SIGNAL || at(core, 0).held == FF_HELD_PTRACE) && at(core, 0).held_ns > 0);
        ff_options options = { .size = sizeof options, .first = waiter_id };
        /* On a machine that is busy with others, a thread that runs may not stop in time. */
        for (int try = 0; try < 20; try++) {
            CHECK(ff_capture_all(core, &options) == FF_OK);
            if (at(core, 2).held != FF_HELD_NOT) break;
        }
        size_t count = 0, dropped = 9;
        CHECK(ff_thread_count(core, &count, &dropped) == FF_OK && count == 3 && dropped == 0);
        CHECK(at(core, 0).id == waiter_id && at(core, 1).id == getpid() && at(core, 2).id == spinner_id);
        CHECK(FRAME_IN(core, 0, waits) > 0 && FRAME_IN(core, 1, main) > 0 && FRAME_IN(core, 2, spins) == 0);
        int32_t left_out[] = { spinner_id };
        options.exclude = left_out, options.exclude_count = 1;
        CHECK(ff_capture_all(core, &options) == FF_OK && ff_thread_count(core, &count, NULL) == FF_OK && count == 2);
        CHECK(ff_capture_thread(core, 0x7fffffff) == FF_OK && at(core, 0).held == FF_HELD_NOT && at(core, 0).frames == 0);
        runs = 0;
        sem_post(&never);
        CHECK(pthread_join(waiter, NULL) == 0 && pthread_join(spinner, NULL) == 0);
    }
    puts("the captures are right");
    return 0;
}
