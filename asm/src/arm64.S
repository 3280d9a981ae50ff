// arm64 routines, AAPCS64.
#include "symbols.h"

    TEXT

// void freezeframe_capture_registers(uint64_t out[34])
//
// Stores the caller's registers as they are once this call has returned: x0..x30, sp, pc, pstate (condition flags).
// The pc is the link register: this routine makes no frame and does not touch it.
FUNCTION freezeframe_capture_registers
    .cfi_startproc
    stp x0, x1, [x0, #0]
    stp x2, x3, [x0, #16]
    stp x4, x5, [x0, #32]
    stp x6, x7, [x0, #48]
    stp x8, x9, [x0, #64]
    stp x10, x11, [x0, #80]
    stp x12, x13, [x0, #96]
    stp x14, x15, [x0, #112]
    stp x16, x17, [x0, #128]
    stp x18, x19, [x0, #144]
    stp x20, x21, [x0, #160]
    stp x22, x23, [x0, #176]
    stp x24, x25, [x0, #192]
    stp x26, x27, [x0, #208]
    stp x28, x29, [x0, #224]
    mov x9, sp
    stp x30, x9, [x0, #240]
    mrs x10, nzcv
    stp x30, x10, [x0, #256]
    ret
    .cfi_endproc
END freezeframe_capture_registers

// What freezeframe_call_on_stack has saved, from the stack pointer on up.
.macro RESTORE
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #160
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
    stp x29, x30, [sp, #-160]!
    .cfi_def_cfa_offset 160
    .cfi_offset x29, -160
    .cfi_offset x30, -152
    mov x29, sp
    .cfi_def_cfa_register x29
    stp x19, x20, [sp, #16]
    .cfi_offset x19, -144
    .cfi_offset x20, -136
    stp x21, x22, [sp, #32]
    .cfi_offset x21, -128
    .cfi_offset x22, -120
    stp x23, x24, [sp, #48]
    .cfi_offset x23, -112
    .cfi_offset x24, -104
    stp x25, x26, [sp, #64]
    .cfi_offset x25, -96
    .cfi_offset x26, -88
    stp x27, x28, [sp, #80]
    .cfi_offset x27, -80
    .cfi_offset x28, -72
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x3]
    and x0, x0, #-16
    mov sp, x0
    mov x0, x2
    blr x1
    mov sp, x29
    RESTORE
    .cfi_def_cfa sp, 0
    ret
    .cfi_endproc
END freezeframe_call_on_stack

// void freezeframe_land(void *landing), which does not return to its caller
FUNCTION freezeframe_land
    .cfi_startproc
    .cfi_undefined x30
    mov sp, x0
    RESTORE
    ret
    .cfi_endproc
END freezeframe_land

#if defined(__linux__)
// Where a signal handler returns to: rt_sigreturn, number 139.
FUNCTION freezeframe_signal_return
    mov x8, #139
    svc #0
END freezeframe_signal_return

// long freezeframe_clone(unsigned long flags, void *stack_top, int (*entry)(void *), void *argument)
//
// clone, number 220. The new task begins in entry(argument) on its own stack and ends with what that returns. A system
// call changes x0 alone.
FUNCTION freezeframe_clone
    .cfi_startproc
    and x1, x1, #-16
    mov x9, x2
    mov x10, x3
    mov x2, xzr
    mov x3, xzr
    mov x4, xzr
    mov x8, #220
    svc #0
    cbz x0, 1f
    ret
    .cfi_endproc
1:
    .cfi_startproc
    .cfi_undefined x30
    mov x29, xzr
    mov x30, xzr
    mov x0, x10
    blr x9
    mov x8, #93
    svc #0
    brk #0
    .cfi_endproc
END freezeframe_clone
#endif

    TRAILER
