// Functions of two parts: what is rarely run may lie elsewhere, and then is entered and left by jumps in the middle of a frame.
#include "start.h"

NOINLINE static int work(int a, int b) { return a * 5 + b; }
__attribute__((cold)) NOINLINE static int rare(int a) { return work(a, 3); }

NOINLINE static int one(int n) {
    int a = work(n, 1), b = work(a, n);
    if (__builtin_expect(n > 5, 0)) a += rare(b) + rare(a);
    return a + b;
}

NOINLINE static int framed(int n) {
    volatile int room[40];
    room[0] = one(n);
    if (__builtin_expect(n == 7, 0)) {
        for (int k = 0; k < 3; k++) room[k] += rare(room[0]);
    }
    return work(room[0], room[1]);
}

NOINLINE static int variable(int n) {
    volatile char room[n + 3];
    room[n] = 2;
    if (__builtin_expect(n & 4, 0)) {
        rare(room[n]);
        if (n == 6) return rare(n) + room[n];
    }
    return room[n] + framed(n);
}

// Only the cold part has a frame.
NOINLINE static int wrapped(int *at, int n) {
    if (__builtin_expect(!at, 0)) return rare(n) - rare(n + 1);
    return *at + n;
}

int run(void) {
    int number = 3, sum = wrapped(&number, 1) + wrapped(0, 2);
    for (int n = 0; n < 9; n++) sum += variable(n);
    return sum;
}
