// A loop as libuv has it, linked into the program: it waits beneath an array that is larger than its callbacks' stacks. Waits once,
// calls back once, waits again, and ends with 5.
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define FUNCTION static __attribute__((noinline))

static int epoll;

FUNCTION int uv__io_poll(int timeout) {
    struct epoll_event events[1024];
    return epoll_wait(epoll, events, 1024, timeout) + (int)sizeof events;
}

FUNCTION void on_timer(const char *what) {
    if (!strcmp(what, "callback"))
        usleep(700000);
}

FUNCTION int uv_run(const char *what) {
    int sum = uv__io_poll(700);
    on_timer(what);
    return sum + uv__io_poll(700);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "nothing";
    epoll = epoll_create1(0);
    int sum = uv_run(what);
    if (!strcmp(what, "after"))
        usleep(700000);
    printf("ends\n");
    return sum ? 5 : 6;
}
