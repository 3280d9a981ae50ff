// Functions of every kind that a symbol table tells apart. `functions.dylib` in this folder is made of it; see `make`.

#define KEPT __attribute__((used, noinline))

static int variable = 1;

KEPT int exported(int n) { return n * 3 + variable++; }
KEPT static int local(int n) { return n * 5 + variable++; }
KEPT __attribute__((visibility("hidden"))) int hidden(int n) { return n * 7 + variable++; }
KEPT __attribute__((weak)) int weak(int n) { return n * 11 + variable++; }

// Several names for one place, the local one first.
__asm__(".text\n"
        ".p2align 2\n"
        "_a_local_alias:\n"
        ".globl _z_exported_alias\n"
        "_z_exported_alias:\n"
        "    ret\n"
        "    nop\n"
        "    nop\n");

// A name inside of a function: `.alt_entry` says that none begins there.
__asm__(".p2align 2\n"
        ".globl _outer\n"
        "_outer:\n"
        "    nop\n"
        "    nop\n"
        ".globl _inner\n"
        ".alt_entry _inner\n"
        "_inner:\n"
        "    nop\n"
        "    ret\n");

// Without the underscore of C names.
KEPT int method(int n) __asm__("-[Class method:]");
int method(int n) { return n * 13 + variable++; }
KEPT int swift(int n) __asm__("_$s4main5swiftyyF");
int swift(int n) { return n * 17 + variable++; }
KEPT int namespaced(int n) __asm__("__ZN4name6spacedEi");
int namespaced(int n) { return n * 19 + variable++; }

// In a section of its own.
KEPT __attribute__((section("__TEXT,__cold,regular,pure_instructions"))) int cold(int n) { return n * 23 + variable++; }

// A call through a stub.
int elsewhere(int n);
KEPT int calls(int n) { return elsewhere(n) + 1; }

// The last of its section.
KEPT static int last(int n) { return n * 29 + variable++; }
