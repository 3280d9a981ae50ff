// Frames too large for the short encodings, and larger than a page.
#include "start.h"

#define FRAME(name, size, callee)                  \
    NOINLINE static int name(int n) {              \
        volatile char room[size];                  \
        room[0] = (char)n, room[size - 1] = 2;     \
        int below = callee(n + 1);                 \
        return below + room[0] + room[size - 1];   \
    }

NOINLINE static int innermost(int n) { return n * 2; }
FRAME(some, 300, innermost)
FRAME(words, 600, some)
FRAME(page, 4200, words)
FRAME(pages, 12000, page)
FRAME(many, 70000, pages)
FRAME(most, 200000, many)

// Much passed and returned in memory.
struct Large {
    long words[12];
};

NOINLINE static struct Large made(int n) {
    struct Large large;
    for (int k = 0; k < 12; k++) large.words[k] = n + k;
    return large;
}

NOINLINE static long taken(struct Large large, int n) { return large.words[n] + page(n); }

int run(void) { return most(1) + (int)taken(made(3), 5); }
