// x86_64 routines, System V calling convention.
#include "symbols.h"

    TEXT

// void freezeframe_capture_registers(uint64_t out[18])
//
// Stores the caller's registers as they are once this call has returned, in DWARF order and then rip and rflags:
// rax rdx rcx rbx rsi rdi rbp rsp r8..r15 rip rflags. Caller-saved registers hold whatever the call left in them.
FUNCTION freezeframe_capture_registers
    .cfi_startproc
    movq %rax, 0(%rdi)
    movq %rdx, 8(%rdi)
    movq %rcx, 16(%rdi)
    movq %rbx, 24(%rdi)
    movq %rsi, 32(%rdi)
    movq %rdi, 40(%rdi)
    movq %rbp, 48(%rdi)
    leaq 8(%rsp), %rax
    movq %rax, 56(%rdi)
    movq %r8, 64(%rdi)
    movq %r9, 72(%rdi)
    movq %r10, 80(%rdi)
    movq %r11, 88(%rdi)
    movq %r12, 96(%rdi)
    movq %r13, 104(%rdi)
    movq %r14, 112(%rdi)
    movq %r15, 120(%rdi)
    movq (%rsp), %rax
    movq %rax, 128(%rdi)
    pushfq
    .cfi_adjust_cfa_offset 8
    popq %rax
    .cfi_adjust_cfa_offset -8
    movq %rax, 136(%rdi)
    movq 0(%rdi), %rax
    ret
    .cfi_endproc
END freezeframe_capture_registers

// What freezeframe_call_on_stack has saved, from the stack pointer on up.
.macro RESTORE
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
.endm

// void freezeframe_call_on_stack(void *stack_top, void (*entry)(void *), void *argument, void **landing)
//
// Calls entry(argument) on another stack, and comes back when that returns, or when somebody on this thread calls
// freezeframe_land with what was stored in *landing.
//
// A signal frame to unwinders: only behind one may the stack go on anywhere.
FUNCTION freezeframe_call_on_stack
    .cfi_startproc
    .cfi_signal_frame
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    movq %rsp, %rbp
    .cfi_def_cfa_register rbp
    pushq %rbx
    .cfi_offset rbx, -24
    pushq %r12
    .cfi_offset r12, -32
    pushq %r13
    .cfi_offset r13, -40
    pushq %r14
    .cfi_offset r14, -48
    pushq %r15
    .cfi_offset r15, -56
    movq %rsp, (%rcx)
    movq %rsp, %rbx
    movq %rdi, %rsp
    andq $-16, %rsp
    movq %rdx, %rdi
    callq *%rsi
    movq %rbx, %rsp
    RESTORE
    .cfi_def_cfa rsp, 8
    ret
    .cfi_endproc
END freezeframe_call_on_stack

// void freezeframe_land(void *landing), which does not return to its caller
FUNCTION freezeframe_land
    .cfi_startproc
    .cfi_undefined rip
    movq %rdi, %rsp
    RESTORE
    ret
    .cfi_endproc
END freezeframe_land

#if defined(__linux__)
// Where a signal handler returns to: rt_sigreturn, number 15. The bytes are those that debuggers and unwinders look
// for (mov $15, %rax; syscall), so a walk through our own handler is recognised without unwind tables.
FUNCTION freezeframe_signal_return
    movq $15, %rax
    syscall
END freezeframe_signal_return

// long freezeframe_clone(unsigned long flags, void *stack_top, int (*entry)(void *), void *argument)
//
// clone, number 56. The new task begins in entry(argument) on its own stack and ends with what that returns. The fifth
// argument of the system call, where the caller's fourth one travels, is not looked at without CLONE_SETTLS.
FUNCTION freezeframe_clone
    .cfi_startproc
    movq %rdx, %r9
    movq %rcx, %r8
    andq $-16, %rsi
    xorl %edx, %edx
    xorl %r10d, %r10d
    movl $56, %eax
    syscall
    testq %rax, %rax
    jz 1f
    ret
    .cfi_endproc
1:
    .cfi_startproc
    .cfi_undefined rip
    xorl %ebp, %ebp
    movq %r8, %rdi
    callq *%r9
    movl %eax, %edi
    movl $60, %eax
    syscall
    hlt
    .cfi_endproc
END freezeframe_clone
#endif

    TRAILER
