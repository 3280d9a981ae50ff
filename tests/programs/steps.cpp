// What a walk meets in C++: exceptions through frames that clean up, virtual calls, function objects, guarded statics.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define NOINLINE __attribute__((noinline))

static volatile int sink;
static int destroyed;

NOINLINE static int leaf(int n) { return n * 3 + 1; }

struct Cleanup {
    int amount;
    explicit Cleanup(int amount) : amount(amount) {}
    NOINLINE ~Cleanup() { destroyed += leaf(amount) / 3; }
};

struct Error : std::runtime_error {
    int code;
    explicit Error(int code) : std::runtime_error("an error"), code(code) {}
};

NOINLINE static int thrower(int depth) {
    Cleanup cleanup(1);
    if (depth == 0) throw Error(7);
    return thrower(depth - 1) + cleanup.amount;
}

NOINLINE static int rethrower(int depth) {
    Cleanup cleanup(10);
    try {
        return thrower(depth);
    } catch (const Error &error) {
        sink = leaf(error.code);
        throw;
    }
}

NOINLINE static int catcher(int depth) {
    try {
        return rethrower(depth);
    } catch (const std::logic_error &) {
        return 0;
    } catch (const std::exception &error) {
        return static_cast<const Error &>(error).code;
    }
}

// A function from which nothing returns but exceptions.
[[noreturn]] NOINLINE static void fail(int n) { throw n; }

NOINLINE static int through_noreturn(int n) {
    Cleanup cleanup(100);
    try {
        fail(n);
    } catch (int caught) {
        return caught;
    }
}

struct Shape {
    virtual int area() const = 0;
    virtual ~Shape() = default;
};

struct Square : Shape {
    int side;
    explicit Square(int side) : side(side) {}
    NOINLINE int area() const override { return leaf(side) * side; }
};

struct Named {
    virtual std::string name() const { return "named"; }
    virtual ~Named() = default;
};

// Calls by way of `Named` go through a thunk.
struct Both : Square, Named {
    Both() : Square(4) {}
    NOINLINE std::string name() const override { return "both, with a name that needs memory of its own"; }
};

struct Guarded {
    int value;
    NOINLINE explicit Guarded(int value) : value(leaf(value)) {}
};

NOINLINE static int guarded() {
    static Guarded once(5);
    return once.value;
}

struct Destructive {
    ~Destructive() noexcept(false) {
        if (std::uncaught_exceptions() == 0) throw Error(3);
    }
};

NOINLINE static int from_destructor() {
    try {
        Destructive destructive;
        sink = leaf(1);
    } catch (const Error &error) {
        return error.code;
    }
    return 0;
}

static Guarded global(9);

int main() {
    int wrong = 0;
    wrong += catcher(4) != 7 || destroyed != 15;
    wrong += through_noreturn(12) != 12;
    wrong += from_destructor() != 3;
    std::vector<std::unique_ptr<Shape>> shapes;
    for (int side = 1; side < 6; side++) shapes.push_back(std::make_unique<Square>(side));
    int area = 0;
    for (const auto &shape : shapes) area += shape->area();
    wrong += area != 4 + 14 + 30 + 52 + 80;
    auto both = std::make_unique<Both>();
    wrong += static_cast<Named *>(both.get())->name().size() < 20;
    int captured = 4;
    std::function<int(int)> function = [&captured](int n) { return leaf(n) + captured; };
    wrong += function(3) != 14;
    wrong += guarded() + guarded() != 32;
    std::map<std::string, int> counts;
    for (const char *word : {"one", "two", "one", "three"}) counts[word]++;
    wrong += counts["one"] != 2;
    std::vector<int> numbers{5, 3, 9, 1, 7};
    std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return leaf(a) < leaf(b); });
    wrong += numbers[0] != 1;
    try {
        numbers.at(77);
    } catch (const std::out_of_range &error) {
        std::printf("%s\n", error.what());
    }
    return wrong + (global.value != 28);
}
