"""What the model does not forgive."""

import enum


class Rule(enum.Enum):
    """A rule that real Mach would let one break without a word, until it hangs, leaks or crashes."""

    HELD_CALL = "while a thread is held, only what is needed to copy it is called"
    STILL_HELD = "every thread that was suspended is resumed"
    RESUMED_TOO_OFTEN = "nothing is resumed that was not suspended"
    RIGHT_LEAKED = "every right to a port is given back"
    NO_RIGHT = "a port is only used by whoever has a right to it"
    ALLOCATION_LEAKED = "what the kernel allocated is freed"
    NO_ALLOCATION = "only what the kernel allocated is freed, once"
    OWN_THREAD = "the capturing thread neither suspends nor inspects itself"
    RUNNING_THREAD = "registers and stack are those of a thread that is held"
    FOREIGN_WRITE = "the core writes nothing but its own data, its stack and its buffers"
    FOREIGN_ACCESS = "memory that may not be there is read through the kernel"
    STACK = "the stack pointer stays in the capturing thread's stack"
    PANIC = "the core neither panics nor traps"
    ENDLESS = "the core comes to an end"
    UNKNOWN_IMPORT = "the core imports only what the model knows"
    UNKNOWN_REQUEST = "the core asks only for what the model knows"


class Broken(Exception):
    """A rule was broken."""

    def __init__(self, rule: Rule, details: str):
        super().__init__(f"{rule.value}: {details}")
        self.rule = rule
