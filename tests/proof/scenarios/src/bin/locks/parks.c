// What parks where the loader holds its lock, and what waits in vfork.
#include <stdlib.h>
#include <unistd.h>

// The function that stays, as a number: the library is loaded by who knows it.
__attribute__((constructor)) static void constructor_that_parks(void) {
    const char *stay = getenv("FREEZEFRAME_STAY");
    if (stay != NULL) {
        ((void (*)(void))strtoul(stay, NULL, 16))();
        __asm__ volatile("");
    }
}

int waits_for_a_vforked_child(void (*stay)(void)) {
    int child = vfork();
    if (child == 0) {
        stay();
        _exit(0);
    }
    __asm__ volatile("");
    return child;
}
