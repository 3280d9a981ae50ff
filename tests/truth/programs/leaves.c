// Functions that call nothing, with and without a frame.
#include "start.h"

NOINLINE static long nothing(void) { return 7; }
NOINLINE static long mixed(long a, long b) { return (a << 3 ^ b) - (a & b); }

NOINLINE static long array(long n) {
    volatile long words[24];
    for (int k = 0; k < 24; k++) words[k] = n + k;
    return words[n & 15];
}

NOINLINE static double floating(double a, double b, double c) { return (a + b) * (b - c) / (a * c + 1); }

NOINLINE static long loop(const long *words, int count) {
    long sum = 0;
    for (int k = 0; k < count; k++) sum = sum * 31 + words[k];
    return sum;
}

NOINLINE static int choice(int n) {
    switch (n) {
    case 0: return 3;
    case 1: return n + 9;
    case 2: return n << 4;
    case 3: return -n;
    case 4: return n * n;
    case 5: return 77;
    case 6: return n ^ 5;
    default: return 0;
    }
}

// As many values at once as make a leaf save registers.
NOINLINE static long pressure(const long *w) {
    long a = w[0], b = w[1], c = w[2], d = w[3], e = w[4], f = w[5], g = w[6], h = w[7];
    for (int n = 0; n < 3; n++) {
        long i = a * b + c, j = d * e + f, k = g * h + a, l = b * c - d, m = e * f - g, o = h * a - b;
        long p = c ^ i, q = d ^ j, r = e ^ k, s = f ^ l, t = g ^ m, u = h ^ o;
        a = p + q + i, b = q - r + j, c = r * s + k, d = s + t + l, e = t - u + m, f = u * p + o, g = i ^ l, h = j ^ m;
        __asm__ volatile("" : "+r"(i), "+r"(j), "+r"(k), "+r"(l), "+r"(p), "+r"(q), "+r"(r), "+r"(s));
        a += i + j + k + l, b += p + q + r + s;
    }
    return a + b + c + d + e + f + g + h;
}

int run(void) {
    long words[8] = {1, 2, 3, 5, 8, 13, 21, 34};
    long sum = nothing() + mixed(5, 9) + array(3) + loop(words, 8) + pressure(words);
    for (int n = 0; n < 8; n++) sum += choice(n);
    return (int)(sum + (long)floating(1.5, 2.5, 3.5));
}
