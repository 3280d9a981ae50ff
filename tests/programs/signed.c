// Functions for arm64 with signed return addresses: the state is flipped, and remembered across early returns.
__attribute__((noinline)) int other(int n) { return n < 2 ? n : other(n - 1) + other(n - 2); }

int early(int n, int *out) {
    if (n < 0) return -1;
    int first = other(n);
    if (first > 10) return first;
    *out = other(first) + other(n + 1);
    return *out;
}

int variable(int n) {
    char room[n + 1];
    for (int k = 0; k <= n; k++) room[k] = (char)other(k);
    return room[n / 2] + early(n, &n);
}
