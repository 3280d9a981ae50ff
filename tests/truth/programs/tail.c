// Calls in tail position: with optimisation they are jumps, and leave no frame.
#include "start.h"

NOINLINE static int last(int a, int b) { return a * 3 + b; }
NOINLINE static int third(int a, int b) { return last(b + 1, a); }
NOINLINE static int second(int a, int b) {
    int n = last(a, b);
    return third(n, last(b, n));
}
NOINLINE static int first(int a, int b) { return second(a + b, a - b); }

NOINLINE static int down(int n, int sum) { return n == 0 ? last(sum, n) : down(n - 1, sum + last(n, sum)); }

NOINLINE static int by_pointer(int (*volatile *function)(int, int), int n) {
    int m = last(n, n);
    return (*function)(m, n);
}

// More arguments than registers: the callee's are above its frame.
NOINLINE static int many(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j) {
    return last(a + b + c + d + e, f + g + h + i + j);
}
NOINLINE static int forwarded(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j) {
    return many(j, i, h, g, f, e, d, c, b, a);
}

int run(void) {
    int (*volatile function)(int, int) = third;
    return first(4, 2) + down(6, 1) + by_pointer(&function, 5) + forwarded(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
}
