// Spells a global function the way the object format wants it: Mach-O prefixes an underscore and has no symbol types;
// ELF wants a type and a size, hidden visibility, and a note that the stack need not be executable.
// Assembler macros, not C macros: `;` separates statements for GNU as and starts a comment for Apple's arm64 assembler.
#if defined(__APPLE__)
.macro FUNCTION name
    .globl _\name
    .private_extern _\name
    .p2align 4
_\name:
.endm
.macro END name
.endm
#define TEXT .section __TEXT,__text,regular,pure_instructions
#define TRAILER .subsections_via_symbols
#else
.macro FUNCTION name
    .globl \name
    .hidden \name
    .type \name, %function
    .p2align 4
\name:
.endm
.macro END name
    .size \name, . - \name
.endm
#define TEXT .text
#define TRAILER .section .note.GNU-stack,"",%progbits
#endif
