// An event loop of its own: it polls, and its tenth event takes long. Counts calls that were interrupted, and ends with 5.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define FUNCTION static __attribute__((noinline))

static int interrupted;

FUNCTION double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

FUNCTION double compute_sum(double seconds) {
    volatile double sum = 0;
    for (double end = now() + seconds; now() < end;)
        for (int i = 0; i < 1000; i++)
            sum += i;
    return sum;
}

FUNCTION void read_slowly(const char *path) {
    char text[64];
    int file = open(path, O_RDONLY);
    if (file < 0 || read(file, text, sizeof text) < 0)
        interrupted++;
    close(file);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *hold_lock(void *started) {
    pthread_mutex_lock(&lock);
    *(volatile int *)started = 1;
    usleep(700000);
    pthread_mutex_unlock(&lock);
    return NULL;
}

FUNCTION void take_lock(void) {
    static int started;
    pthread_t holder;
    pthread_create(&holder, NULL, hold_lock, &started);
    while (!*(volatile int *)&started)
        usleep(100);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    pthread_join(holder, NULL);
}

FUNCTION void handle_event(int number, const char *what, const char *path) {
    if (number != 10)
        return;
    if (!strcmp(what, "compute"))
        compute_sum(0.7);
    else if (!strcmp(what, "sleep"))
        usleep(700000);
    else if (!strcmp(what, "read"))
        read_slowly(path);
    else if (!strcmp(what, "lock"))
        take_lock();
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "nothing";
    int epoll = epoll_create1(0);
    printf("begins\n");
    fflush(stdout);
    for (int number = 0; number < 20; number++) {
        struct epoll_event event;
        if (epoll_wait(epoll, &event, 1, 60) < 0)
            interrupted++;
        handle_event(number, what, count > 2 ? words[2] : "");
    }
    printf("%d interrupted\n", interrupted);
    return 5;
}
