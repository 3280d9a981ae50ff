// Functions with as many arguments as the caller likes.
#include "start.h"
#include <stdarg.h>

NOINLINE static long id(long n) { return n; }

NOINLINE static long leaf(int count, ...) {
    va_list list;
    va_start(list, count);
    long sum = 0;
    while (count--) sum += va_arg(list, long);
    va_end(list);
    return sum;
}

NOINLINE static double with_list(int count, va_list list) {
    double sum = 0;
    for (int n = 0; n < count; n++) sum += n & 1 ? va_arg(list, double) : (double)id(va_arg(list, int));
    return sum;
}

NOINLINE static double with_calls(int count, ...) {
    va_list list;
    va_start(list, count);
    double sum = with_list(count, list) + (double)leaf(2, 3L, 4L);
    va_end(list);
    return sum;
}

int run(void) {
    return (int)(leaf(3, 1L, 2L, 3L) + leaf(10, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L, 10L)) +
           (int)with_calls(6, 1, 2.5, 3, 4.5, 5, 6.5) +
           (int)with_calls(20, 1, 2., 3, 4., 5, 6., 7, 8., 9, 10., 11, 12., 13, 14., 15, 16., 17, 18., 19, 20.);
}
