// A library that a thread is in when it goes away.
int calls_from_the_library(int depth, void (*stay)(void)) {
    if (depth > 0) {
        int result = calls_from_the_library(depth - 1, stay);
        __asm__ volatile("");
        return result + 1;
    }
    stay();
    __asm__ volatile("");
    return 0;
}
