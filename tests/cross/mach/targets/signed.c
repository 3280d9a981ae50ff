// Built with signed return addresses, which compilers but Apple's describe in `__eh_frame`.
#include "targets.h"

long sealed(long n) {
    long result = n > 0 ? sealed(n - 1) : leaf(n);
    NO_TAIL_CALL;
    return result + 2;
}
