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
