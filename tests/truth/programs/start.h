// Where a freestanding program begins. It defines `run`, whose result becomes the exit code; the first system call ends it.
#pragma once

#define NOINLINE __attribute__((noinline, noclone))
#if defined(__clang__)
#undef NOINLINE
#define NOINLINE __attribute__((noinline))
#endif
#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)
#define SYMBOL(name) STRING(__USER_LABEL_PREFIX__) name

int run(void);

#if defined(__aarch64__)
__asm__(".text\n.globl _start\n.p2align 2\n"
        "_start:\n.cfi_startproc\n.cfi_undefined x30\n"
        "mov x29, #0\nmov x30, #0\nbl " SYMBOL("run") "\nsvc #0\n"
        ".cfi_endproc\n");
static inline _Noreturn void leave(int code) {
    register long x0 __asm__("x0") = code;
    __asm__ volatile("svc #0" ::"r"(x0));
    __builtin_unreachable();
}
#else
__asm__(".text\n.globl _start\n"
        "_start:\n.cfi_startproc\n.cfi_undefined rip\n"
        "xorl %ebp, %ebp\ncall " SYMBOL("run") "\nmovl %eax, %edi\nsyscall\n"
        ".cfi_endproc\n");
static inline _Noreturn void leave(int code) {
    __asm__ volatile("syscall" ::"D"((long)code));
    __builtin_unreachable();
}
#endif

// What compilers call of their own accord.
void *memset(void *to, int value, unsigned long size) {
    volatile char *bytes = to;
    while (size--) *bytes++ = (char)value;
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, unsigned long size) {
    volatile char *bytes = to;
    const volatile char *others = from;
    while (size--) *bytes++ = *others++;
    return to;
}
