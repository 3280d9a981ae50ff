// Functions whose frames differ, for compact unwind information: each way in which one can be encoded.

extern "C" {
int outside(int *);
int outside_many(int, int, int, int, int, int, int, int, int, int);
[[noreturn]] void die();
}

int leaf(int a) { return a + 1; }

int leaf_with_room(int a) {
    volatile int room[8];
    room[a & 7] = a;
    return room[3];
}

int one_call(int a) {
    int x[4];
    x[0] = a;
    return outside(x) + a;
}

int large(int a) {
    int x[400000];
    x[0] = a;
    return outside(x) + a;
}

int larger_than_an_encoding(int a, int b) {
    int x[3000];
    x[0] = a;
    outside(x);
    return outside(x) * b + a;
}

int many_registers(int a, int b, int c, int d, int e) {
    int sum = 0;
    for (int i = 0; i < a; i++) {
        int x = b + i;
        sum += outside(&x) * c + d * e + a;
    }
    return sum;
}

int arguments_on_the_stack(int a) { return outside_many(1, 2, 3, 4, 5, 6, 7, 8, 9, a) + a; }

int many_arguments(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j) {
    return outside(&a) + outside(&j) + b * c + d * e + f * g + h * i;
}

int tail_call(int *a) {
    outside(a);
    return outside(a + 1);
}

int tail_call_first(int *a) {
    if (!*a) return outside(a);
    outside(a);
    return outside(a) + 1;
}

int through_a_pointer(int *a, int (*f)(int *)) {
    outside(a);
    return f(a);
}

double vectors(double a, double b, int *p) {
    double r = a;
    outside(p);
    r += b;
    outside(p);
    return r * a + b;
}

double many_vectors(double a, double b, double c, double d, double e, double f, double g, double h, int *p) {
    outside(p);
    return a * b + c * d + e * f + g * h + outside(p);
}

int catches(int *a) {
    try {
        return outside(a);
    } catch (int e) {
        return e;
    }
}

struct Destroyed {
    int *value;
    ~Destroyed() { outside(value); }
};

int destroys(int *a) {
    Destroyed destroyed{a};
    return outside(a) + 3;
}

int of_a_size_known_late(int n) {
    int x[n];
    x[0] = n;
    return outside(x);
}

int aligned(int n) {
    alignas(128) int x[64];
    x[n & 63] = n;
    return outside(x);
}

int wrapped(int *p) {
    if (!p) return 0;
    outside(p);
    return outside(p) + 1;
}

int ends(int *p) {
    if (outside(p)) die();
    return 3;
}

int switches(int n, int *p) {
    switch (n) {
    case 0: return outside(p) + 1;
    case 1: return outside(p) * 3;
    case 2: return outside(p + 1);
    case 3: outside(p); return outside(p + 4) - 7;
    case 4: return 12;
    case 5: return outside(p) / 3;
    default: return n;
    }
}

long looped(long *p, long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += p[i] * p[n - i];
    return sum;
}
