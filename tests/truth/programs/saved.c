// Functions that keep many values across calls, in all registers that a callee preserves.
#include "start.h"

NOINLINE static long mix(long a, long b) { return a * 31 ^ b; }
NOINLINE static double halve(double a) { return a / 2; }

NOINLINE static long twelve(const long *w) {
    long a = w[0], b = w[1], c = w[2], d = w[3], e = w[4], f = w[5], g = w[6], h = w[7], i = w[8], j = w[9], k = w[10],
         l = w[11];
    a = mix(a, b), b = mix(b, c), c = mix(c, d), d = mix(d, e), e = mix(e, f), f = mix(f, g);
    g = mix(g, h), h = mix(h, i), i = mix(i, j), j = mix(j, k), k = mix(k, l), l = mix(l, a);
    return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k ^ l;
}

NOINLINE static long three(long a, long b, long c) {
    long d = twelve((long[]){a, b, c, a, b, c, c, b, a, c, b, a});
    return mix(a, d) + mix(b, d) + mix(c, d);
}

NOINLINE static double floats(double a, double b, double c, double d) {
    double e = halve(a), f = halve(b), g = halve(c), h = halve(d);
    return halve(a + e) * b + halve(c + f) * d + e * g + f * h;
}

NOINLINE static long both(long a, double b) {
    double c = floats(b, b + 1, b + 2, b + 3);
    long d = three(a, a + 1, a + 2);
    return mix(a, d) + (long)(b * c) + d;
}

NOINLINE static long nested(int n, long a) {
    if (n == 0) return both(a, 1.5);
    long b = mix(a, n), c = nested(n - 1, b);
    return mix(a, c) + mix(b, c);
}

int run(void) { return (int)nested(4, 3); }
