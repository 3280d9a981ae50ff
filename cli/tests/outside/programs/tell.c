// Tells what it was given: signals, descriptors, environment, threads; and what a child of its own is given.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

int main(int count, char **words) {
    for (int n = 0; n < count; n++)
        printf("argument %s\n", words[n]);
    char line[4096];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if ((!strncmp(line, "Sig", 3) && line[3] != 'Q') || !strncmp(line, "Shd", 3) || !strncmp(line, "Threads", 7) || !strncmp(line, "NoNewPrivs", 10) ||
            !strncmp(line, "Seccomp:", 8) || !strncmp(line, "TracerPid", 9))
            fputs(line, stdout);
    fclose(status);
    for (int number = 0; number < 64; number++) {
        struct stat facts;
        if (!fstat(number, &facts))
            printf("open %d %o\n", number, facts.st_mode & S_IFMT);
    }
    for (char **variable = environ; *variable; variable++)
        printf("variable %s\n", *variable);
    fflush(stdout);
    return system("env; cat /proc/self/status | grep -E '^(Sig[^Q]|Threads)'; ls /proc/self/fd | wc -l") == 0 ? 9 : 1;
}
