// Functions that call themselves and one another.
#include "start.h"

NOINLINE static int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

NOINLINE static int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

NOINLINE static int odd(int n);
NOINLINE static int even(int n) { return n == 0 ? 1 : odd(n - 1) + 2; }
NOINLINE static int odd(int n) { return n == 0 ? 0 : even(n - 1) + 3; }

// Moves discs between pegs.
NOINLINE static void hanoi(int discs, int *from, int *to, int *spare) {
    if (discs == 0) return;
    hanoi(discs - 1, from, spare, to);
    (*from)--, (*to)++;
    hanoi(discs - 1, spare, to, from);
}

int run(void) {
    int a = 4, b = 0, c = 0;
    hanoi(a, &a, &b, &c);
    return fibonacci(8) + ackermann(2, 2) + even(20) + a + b * 10 + c;
}
