// What frames_macho.cpp calls.

int outside(int *a) { return *a; }

int outside_many(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j) { return a + j; }

_Noreturn void die(void) {
    for (;;) {
    }
}

int main(void) { return 0; }
