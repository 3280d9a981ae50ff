// Returns over many frames at once.
#include "start.h"

static void *buffer[5];

NOINLINE static int inner(int n) {
    volatile int room[10];
    room[n] = n;
    if (n == 0) __builtin_longjmp(buffer, 1);
    return inner(n - 1) + room[n];
}

NOINLINE static int outer(int n) {
    volatile int kept = n;
    if (__builtin_setjmp(buffer)) return kept + 1;
    return inner(n) + kept;
}

int run(void) { return outer(3) + outer(5); }
