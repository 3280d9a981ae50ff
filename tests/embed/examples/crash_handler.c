/* A crash handler over the stack walker: nothing is allocated, everything lies in static memory. */
#define _GNU_SOURCE
#include <freezeframe_unwind.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Alignas(FF_STORAGE_ALIGN) unsigned char storage[FF_STORAGE_SIZE];
static unsigned char alternate[64 * 1024];
static ff_core *core;

static void text(const char *bytes, size_t length) { if (write(STDOUT_FILENO, bytes, length) < 0) _exit(3); }

static void hex(uint64_t number) {
    char digits[18] = "0x";
    for (int n = 0; n < 16; n++) digits[2 + n] = "0123456789abcdef"[number >> (60 - 4 * n) & 15];
    text(digits, sizeof digits);
}

static void on_crash(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ff_error error = ff_capture_all_from_context(core, context, NULL);
    if (error != FF_OK) _exit(2);
    ff_thread thread = { .size = sizeof thread };
    for (size_t t = 0; ff_thread_at(core, t, &thread) == FF_OK; t++) {
        text("thread ", 7), text(thread.name, strlen(thread.name)), text("\n", 1);
        ff_frame frame = { .size = sizeof frame };
        ff_image image = { .size = sizeof image };
        for (size_t n = 0; ff_frame_at(core, t, n, &frame) == FF_OK; n++) {
            hex(frame.address);
            if (ff_image_find(core, frame.lookup, &image) == FF_OK) {
                text(" ", 1), text((const char *)image.path, image.path_length);
                text(" ", 1), hex(frame.lookup - image.slide);
            }
            text("\n", 1);
        }
        const char *stop = ff_stop_text(thread.stop);
        text("-- ", 3), text(stop, strlen(stop)), text("\n", 1);
    }
    _exit(0);
}

__attribute__((noinline)) static int crash(volatile int *where) { *where = 1; return *where; }
__attribute__((noinline)) int open_document(volatile int *document) { return crash(document) + 1; }

int main(void) {
    ff_error error = ff_init(storage, sizeof storage, NULL, &core);
    if (error != FF_OK) return fprintf(stderr, "%s\n", ff_strerror(error)), 1;
    stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };
    struct sigaction action = { .sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGSEGV, &action, NULL) != 0) return 1;
    volatile int *nowhere = (volatile int *)(uintptr_t)16;
    return open_document(nowhere);
}
