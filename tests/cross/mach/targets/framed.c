// Functions as an app has them, with frame pointers: compact unwind information describes them.
#include "targets.h"

volatile long other = 5;

long leaf(long n) {
    long sum = n;
    for (long k = 0; k < 2; k++) sum = sum * 3 + other;
    return sum;
}

long descend(long n) {
    long result = n > 0 ? descend(n - 1) : leaf(n);
    NO_TAIL_CALL;
    return result + 1;
}

// About a KiB each time.
long roomy(long n) {
    volatile char room[1000];
    room[n & 511] = (char)n;
    long result = n > 0 ? roomy(n - 1) : leaf(n);
    NO_TAIL_CALL;
    return result + room[n & 511];
}

// Keeps values across calls in registers that it must preserve.
long saver(long n) {
    long a = leaf(n), b = leaf(a), c = leaf(b), d = leaf(c), e = leaf(d);
    NO_TAIL_CALL;
    return leaf(a + b * c + d * e) + a - b + c - d + e;
}

long work(long n) {
    long result = saver(n) + lean(n);
    NO_TAIL_CALL;
    return result + descend(2);
}
