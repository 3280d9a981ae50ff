// Calls through pointers: tables of functions, callbacks, an interpreter.
#include "start.h"

typedef long (*Operation)(long, long);
NOINLINE static long add(long a, long b) { return a + b; }
NOINLINE static long subtract(long a, long b) { return a - b; }
NOINLINE static long multiply(long a, long b) { return a * b; }

NOINLINE static long interpret(const char *text, const Operation *operations) {
    long stack[8];
    int depth = 0;
    for (; *text; text++) {
        if (*text >= '0' && *text <= '9') {
            stack[depth++] = *text - '0';
            continue;
        }
        long b = stack[--depth], a = stack[--depth];
        stack[depth++] = operations[*text == '+' ? 0 : *text == '-' ? 1 : 2](a, b);
    }
    return stack[0];
}

NOINLINE static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
NOINLINE static int descending(const void *a, const void *b) { return ascending(b, a); }

NOINLINE static void sort(int *numbers, int count, int (*compare)(const void *, const void *)) {
    for (int n = 1; n < count; n++) {
        for (int k = n; k > 0 && compare(&numbers[k - 1], &numbers[k]) > 0; k--) {
            int other = numbers[k];
            numbers[k] = numbers[k - 1];
            numbers[k - 1] = other;
        }
    }
}

struct Node {
    struct Node *left, *right;
    long value;
};

NOINLINE static void visit(struct Node *node, void (*see)(struct Node *, void *), void *with) {
    if (!node) return;
    visit(node->left, see, with);
    see(node, with);
    visit(node->right, see, with);
}
NOINLINE static void fold(struct Node *node, void *with) { *(long *)with = *(long *)with * 3 + node->value; }

int run(void) {
    volatile Operation operations[3];
    operations[0] = add, operations[1] = subtract, operations[2] = multiply;
    int numbers[7] = {4, 1, 7, 3, 9, 2, 5};
    sort(numbers, 7, ascending);
    sort(numbers, 5, descending);
    struct Node a = {0, 0, 1}, b = {0, 0, 3}, c = {&a, &b, 2}, d = {0, &c, 5};
    long sum = 0;
    visit(&d, fold, &sum);
    return (int)(interpret("12+3*45-6*+", (const Operation *)operations) + numbers[3] + sum);
}
