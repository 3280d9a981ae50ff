// Functions that make their frame only on some paths, or leave from many places.
#include "start.h"

NOINLINE static int work(int a, int b) { return a * 7 + b; }

NOINLINE static int early(const int *at, int n) {
    if (!at) return -1;
    if (n < 0) return n;
    int first = work(*at, n);
    if (first > 100) return first;
    int second = work(first, *at);
    return second & 1 ? second : work(second, first) + n;
}

NOINLINE static int late(int n, int *out) {
    int sum = n;
    for (int k = 0; k < n; k++) sum += k * k;
    if (sum < 10) return sum;
    *out = work(sum, n) + work(n, sum);
    return *out + sum;
}

NOINLINE static int unlikely(int n) {
    if (__builtin_expect(n == 13, 0)) {
        volatile int room[20];
        room[3] = work(n, n);
        return room[3] + work(n, 2);
    }
    return n + 1;
}

NOINLINE static int many(int n, int m) {
    switch (n) {
    case 0: return work(n, m) + work(m, n);
    case 1: return m;
    case 2: {
        int a = work(m, 2);
        for (int k = 0; k < 3; k++) a += work(a, k);
        return a;
    }
    case 3: return m + 3;
    case 4: return work(m, m);
    default: return -1;
    }
}

// A loop around a call, behind a test.
NOINLINE static int around(int n) {
    if (n == 0) return 0;
    int sum = 0;
    do sum += work(sum, n);
    while (--n);
    return sum;
}

int run(void) {
    int number = 3, sum = early(0, 1) + early(&number, -4) + early(&number, 2) + early(&number, 90);
    for (int n = 0; n < 6; n++) sum += many(n, n + 2) + late(n, &number) + around(n);
    return sum + unlikely(12) + unlikely(13);
}
