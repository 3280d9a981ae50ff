// Stacks that grow while a function runs: arrays of variable length, alloca, a frame aligned to more than the ABI does.
#include "start.h"

NOINLINE static int sum(const volatile char *bytes, int count) {
    int total = 0;
    for (int n = 0; n < count; n++) total += bytes[n];
    return total;
}

NOINLINE static int array(int n) {
    volatile char room[n + 1];
    for (int k = 0; k <= n; k++) room[k] = (char)k;
    return sum(room, n + 1);
}

NOINLINE static int allocated(int n) {
    int total = 0;
    for (int k = 1; k < n; k++) {
        char *room = __builtin_alloca(k * 24);
        room[0] = (char)k;
        total += sum(room, 1) + array(k);
    }
    return total;
}

// An array whose scope ends while the function goes on.
NOINLINE static int scopes(int n) {
    int total = 0;
    for (int k = 1; k < n; k++) {
        volatile char first[k * 8];
        first[0] = (char)k;
        {
            volatile char second[k * 4];
            second[0] = (char)k;
            total += sum(second, 1);
        }
        total += sum(first, 1);
    }
    return total;
}

NOINLINE static int aligned(int n) {
    _Alignas(64) volatile char room[128];
    room[0] = (char)n;
    return sum(room, 1) + array(n & 7);
}

NOINLINE static int aligned_and_variable(int n) {
    _Alignas(128) volatile char room[128];
    volatile char more[n * 16];
    room[0] = (char)n, more[0] = 1;
    return sum(room, 1) + sum(more, 1) + aligned(n);
}

int run(void) { return array(9) + allocated(6) + scopes(5) + aligned(3) + aligned_and_variable(5); }
