// Built without frame pointers. On arm64 only `__eh_frame` can describe that.
#include "targets.h"

long lean(long n) {
    long a = leaf(n), b = leaf(a), c = leaf(b);
    NO_TAIL_CALL;
    return leaf(a ^ b) + c;
}
