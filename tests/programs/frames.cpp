// Functions whose frames differ: leaf, deep, with saved registers, with a variable size, realigned, thrown through.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

__attribute__((noinline)) static int leaf(int n) { return n * 3 + 1; }

__attribute__((noinline)) static int variable(int n) {
    char *room = static_cast<char *>(__builtin_alloca(n * 16 + 1));
    std::memset(room, n, n * 16 + 1);
    return room[n] + leaf(n);
}

__attribute__((noinline)) static int realigned(int n) {
    alignas(64) volatile int words[32] = {};
    words[n & 31] = variable(n & 7);
    return words[n & 31];
}

__attribute__((noinline)) static int many(int a, int b, int c, int d, int e, int f, int g, int h) {
    int sum = 0;
    for (int n = 0; n < a; n++)
        sum += realigned(n + b) * c + realigned(n + d) * e + realigned(n + f) * g + h;
    return sum;
}

__attribute__((noinline)) static int throwing(int n) {
    std::string text(n, 'x');
    if (n > 5) throw std::runtime_error(text);
    return static_cast<int>(text.size());
}

int main(int argc, char **) {
    std::vector<int> results;
    for (int n = 0; n < 10; n++) {
        try {
            results.push_back(throwing(n * argc) + many(n, 1, 2, 3, 4, 5, 6, 7));
        } catch (const std::exception &error) {
            results.push_back(static_cast<int>(std::strlen(error.what())));
        }
    }
    int sum = 0;
    for (int result : results) sum += result;
    std::printf("%d\n", sum);
}
