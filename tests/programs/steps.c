/* What a walk meets in C. Each part calls on a stack of its own shape; the program ends with 0 if all parts agree. */
#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static volatile int sink;

/* Recursion, a leaf, and calls in tail position. */

NOINLINE static int leaf(int n) { return n * 3 + 1; }

NOINLINE static long fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

NOINLINE static int even(unsigned n);
NOINLINE static int odd(unsigned n) { return n == 0 ? 0 : even(n - 1); }
NOINLINE static int even(unsigned n) { return n == 0 ? 1 : odd(n - 1); }

NOINLINE static int seventh(int a, int b, int c, int d, int e, int f, int g, int h) {
    return leaf(a + b + c + d + e + f) + g - h;
}

NOINLINE static int many(int n) { return seventh(n, 1, 2, 3, 4, 5, n + 6, 7) + 1; }

/* Frames whose size is known only when they run, and aligned ones. */

NOINLINE static int with_alloca(size_t n) {
    char *bytes = alloca(n);
    memset(bytes, 7, n);
    return bytes[n / 2] + leaf((int)n);
}

NOINLINE static int with_array(int n) {
    int numbers[n];
    for (int i = 0; i < n; i++) numbers[i] = leaf(i);
    return n > 3 ? numbers[n - 1] + with_array(n / 2) : numbers[0];
}

NOINLINE static int aligned(int n) {
    __attribute__((aligned(64))) volatile char bytes[64];
    bytes[0] = (char)n;
    return leaf(bytes[0]) + (int)((uintptr_t)bytes % 64);
}

NOINLINE static int aligned_and_sized(int n) {
    __attribute__((aligned(64))) volatile int numbers[16];
    volatile char *more = alloca((size_t)n + 16);
    more[n] = 1;
    numbers[3] = n;
    return leaf(numbers[3]) + more[n] + (int)((uintptr_t)numbers % 64);
}

__attribute__((target("avx2"))) NOINLINE static double vectors(int n) {
    double numbers[32] __attribute__((aligned(32)));
    for (int i = 0; i < 32; i++) numbers[i] = i * n;
    for (int i = 0; i < 16; i++) numbers[i] += numbers[31 - i];
    sink = leaf((int)numbers[3]);
    return numbers[7];
}

NOINLINE static int large_frame(int n) {
    volatile char bytes[20000];
    bytes[n] = (char)n;
    return leaf(bytes[n]);
}

NOINLINE static int sum(int count, ...) {
    va_list list;
    va_start(list, count);
    int total = 0;
    for (int i = 0; i < count; i++) total += leaf(va_arg(list, int));
    va_end(list);
    return total;
}

/* Jumps over frames, and calls that do not return. */

static jmp_buf place;

__attribute__((noreturn)) NOINLINE static void jump(int n) { longjmp(place, n); }

__attribute__((noreturn)) NOINLINE static void last_instruction_is_a_call(int n) {
    sink = n;
    jump(n + 1);
}

NOINLINE static int deeper(int n) {
    volatile int here = n;
    if (n == 0) last_instruction_is_a_call(4);
    return deeper(n - 1) + here;
}

NOINLINE static int over_frames(void) {
    int value = setjmp(place);
    return value ? value : deeper(6);
}

/* Signals. */

static void *protected_page;
static sigjmp_buf recovery;
static volatile int handled;

static void on_nested(int signal) {
    sink = leaf(signal);
    handled++;
}

static void on_user(int signal) {
    sink = leaf(signal);
    handled++;
    raise(SIGUSR2);
    handled++;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    handled++;
    if (info->si_addr == protected_page)
        mprotect(protected_page, 4096, PROT_READ | PROT_WRITE);
    else
        siglongjmp(recovery, 1);
}

static void on_fault_with_guests(int signal, siginfo_t *info, void *context) {
    raise(SIGUSR1);
    on_fault(signal, info, context);
}

static void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

static void handle_with_info(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    sigaction(signal, &action, NULL);
}

NOINLINE static int touch(volatile char *bytes) {
    bytes[0] = 5;
    return bytes[0];
}

typedef int (*function)(int);
static volatile function nowhere;

NOINLINE static int call_nowhere(void) {
    if (sigsetjmp(recovery, 1)) return 1;
    return nowhere(3) + 1;
}

NOINLINE static int divide(volatile int by) {
    if (sigsetjmp(recovery, 1)) return 1;
    return 100 / by;
}

/* Faults while its frame is half made: the red zone holds what it knows. */
NOINLINE static int trap_in_leaf(volatile int n) {
    if (sigsetjmp(recovery, 1)) return 1;
    __builtin_trap();
    return n;
}

NOINLINE static int signals(void) {
    static char stack[64 * 1024] __attribute__((aligned(16)));
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    handle(SIGUSR2, on_nested, 0);
    handle(SIGUSR1, on_user, 0);
    raise(SIGUSR1);

    sigaltstack(&alternate, NULL);
    handle(SIGUSR1, on_user, SA_ONSTACK);
    raise(SIGUSR1);
    handle(SIGUSR2, on_nested, SA_ONSTACK);
    raise(SIGUSR1);

    int answers = 0;
    protected_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    handle_with_info(SIGSEGV, on_fault, SA_ONSTACK);
    answers += touch(protected_page);
    answers += call_nowhere();
    handle_with_info(SIGFPE, on_fault, 0);
    answers += divide(0);
    handle_with_info(SIGILL, on_fault_with_guests, SA_ONSTACK | SA_NODEFER);
    answers += trap_in_leaf(1);
    mprotect(protected_page, 4096, PROT_NONE);
    handle_with_info(SIGSEGV, on_fault_with_guests, 0);
    answers += touch(protected_page);
    return answers;
}

/* The C library: lazy binding, callbacks, implementations chosen at run time. */

static int compare(const void *a, const void *b) { return leaf(*(const int *)a) - leaf(*(const int *)b); }

static int on_exit_called;
static void at_end(void) { on_exit_called = leaf(2); }

__attribute__((constructor)) static void at_start(void) { sink = leaf(1); }
__attribute__((destructor)) static void after_end(void) { sink = leaf(3); }

NOINLINE static int library(void) {
    int numbers[24], wanted = 5;
    for (int i = 0; i < 24; i++) numbers[i] = (i * 7919) % 24;
    qsort(numbers, 24, sizeof *numbers, compare);
    int *found = bsearch(&wanted, numbers, 24, sizeof *numbers, compare);
    char text[200], copy[200];
    int length = snprintf(text, sizeof text, "%d %s %.3f %p %lld", 42, "text", 3.25, (void *)0, 1234567890123LL);
    memcpy(copy, text, sizeof copy);
    memmove(copy + 1, copy, 100);
    char *pieces[20];
    for (size_t i = 0; i < 20; i++) pieces[i] = malloc(i * 300 + 1);
    for (size_t i = 0; i < 20; i++) pieces[i] = realloc(pieces[i], i * 500 + 8);
    for (size_t i = 0; i < 20; i++) free(pieces[i]);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    setenv("STEPS", "1", 1);
    printf("%s %d %d %g\n", getenv("STEPS"), length, (int)strlen(text), sqrt(now.tv_nsec) + pow(1.5, 2.5));
    fflush(stdout);
    long number = strtol("  -1234x", NULL, 10);
    errno = 0;
    close(-1);
    return *found == 5 && number == -1234 && errno == EBADF && strchr(text, 't') && !memcmp(text, copy, 1) ? 0 : 1;
}

int main(void) {
    atexit(at_end);
    int wrong = 0;
    wrong += fibonacci(9) != 34;
    wrong += !even(20);
    sink = many(3);
    sink = with_alloca(100) + with_array(20) + aligned(3) + aligned_and_sized(9) + large_frame(77);
    if (__builtin_cpu_supports("avx2")) sink += (int)vectors(3);
    wrong += sum(7, 1, 2, 3, 4, 5, 6, 7) != 91;
    wrong += over_frames() != 5;
    wrong += signals() != 13;
    wrong += handled < 15;
    wrong += library();
    return wrong;
}
