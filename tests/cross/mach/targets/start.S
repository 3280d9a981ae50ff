// How threads begin, and what no C compiler writes: a library's first functions, without unwind tables as in Apple's.
// Statements are separated by newlines only: `;` starts a comment for Apple's arm64 assembler.

    .section __TEXT,__text,regular,pure_instructions

#if defined(__aarch64__)

// The kernel starts a thread with x29 = x30 = 0, the function in x0 and its argument in x1.
    .globl _thread_start
    .p2align 2
_thread_start:
    mov x9, x0
    mov x0, x1
    blr x9
    brk #1

// The same with a frame record: it holds the two zeros.
    .globl _thread_start_recorded
    .p2align 2
_thread_start_recorded:
    stp x29, x30, [sp, #-16]!
    mov x29, sp
    mov x9, x0
    mov x0, x1
    blr x9
    brk #1

// A recursion whose return addresses are signed, described by compact unwind information as Apple's compiler does it for
// arm64e: there is no word in it of the signature.
    .globl _signed_recursion
    .p2align 2
_signed_recursion:
    .cfi_startproc
    pacibsp
    stp x20, x19, [sp, #-32]!
    stp x29, x30, [sp, #16]
    add x29, sp, #16
    .cfi_def_cfa w29, 16
    .cfi_offset w30, -8
    .cfi_offset w29, -16
    .cfi_offset w19, -24
    .cfi_offset w20, -32
    mov x19, x0
    cbz x0, 1f
    sub x0, x0, #1
    bl _signed_recursion
    b 2f
1:
    bl _leaf
2:
    add x0, x0, x19
    ldp x29, x30, [sp, #16]
    ldp x20, x19, [sp], #32
    retab
    .cfi_endproc

#else

// The kernel starts a thread with rbp = 0, the function in rdi and its argument in rsi.
    .globl _thread_start
    .p2align 4
_thread_start:
    movq %rdi, %rax
    movq %rsi, %rdi
    callq *%rax
    ud2

// The same with a frame record: it holds the zero, and the zero above it.
    .globl _thread_start_recorded
    .p2align 4
_thread_start_recorded:
    pushq $0
    pushq %rbp
    movq %rsp, %rbp
    movq %rdi, %rax
    movq %rsi, %rdi
    callq *%rax
    ud2

// So that the functions above lie between others: behind the last one, tables say nothing.
    .globl _behind
    .p2align 4
_behind:
    .cfi_startproc
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    popq %rbp
    retq
    .cfi_endproc

#endif

    .subsections_via_symbols
