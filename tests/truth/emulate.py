#!/usr/bin/env python3
"""Runs freestanding code one instruction at a time under unicorn, and writes down what each finds.

    emulate.py arm64|x86_64 IMAGE BASE ENTRY >TRACE

IMAGE is the memory from address BASE on, as it is when the program is loaded. The program begins at ENTRY, on an empty
stack, and ends with its first system call. The trace is little-endian words of 64 bits:

    stack low, stack high
    for each instruction, before it is executed:
        which registers have changed since the last one: bit n is DWARF register n (the last is the pc)
        their values, by ascending number
        how many words of the stack have been written since the last one
        their addresses and values
    all bits set, exit code
"""

import argparse
import array
import sys

import unicorn
from unicorn import arm64_const as arm64
from unicorn import x86_const as x86

# The emulated processor has 40 bits of physical address, and no page tables here.
STACK_LOW = 0x7F_0000_0000
STACK_SIZE = 1 << 20
PAGE = 0x1000
# A program that loops for ever is a mistake, not a test.
MOST_INSTRUCTIONS = 1_000_000
END = (1 << 64) - 1


def arm64_machine():
    """Linux's exception level and pointer authentication: return addresses get real signatures."""
    machine = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
    machine.ctl_set_cpu_model(arm64.UC_CPU_ARM64_MAX)

    def system(op0, op1, crn, crm, op2, bits):
        place = (crn, crm, op0, op1, op2)
        machine.reg_write(arm64.UC_ARM64_REG_CP_REG, (*place, machine.reg_read(arm64.UC_ARM64_REG_CP_REG, place) | bits))

    system(3, 6, 1, 1, 0, 1 | 1 << 10 | 3 << 16)  # SCR_EL3: non-secure, 64 bits, no traps of keys (APK, API)
    system(3, 4, 1, 1, 0, 1 << 31 | 3 << 40)  # HCR_EL2: 64 bits, no traps of keys (APK, API)
    system(3, 0, 1, 0, 0, 3 << 30)  # SCTLR_EL1: instruction keys A and B are enabled (EnIA, EnIB)
    machine.reg_write(arm64.UC_ARM64_REG_CPACR_EL1, 3 << 20)  # vector registers may be used
    machine.reg_write(arm64.UC_ARM64_REG_PSTATE, 0x4000_0000)  # EL0
    names = [f"X{n}" for n in range(31)] + ["SP", "PC"]
    return machine, [getattr(arm64, f"UC_ARM64_REG_{name}") for name in names]


def x86_64_machine():
    machine = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
    names = "RAX RDX RCX RBX RSI RDI RBP RSP R8 R9 R10 R11 R12 R13 R14 R15 RIP".split()
    return machine, [getattr(x86, f"UC_X86_REG_{name}") for name in names]


class Tracer:
    def __init__(self, machine, registers, out):
        self.machine = machine
        self.registers = registers
        self.values = [None] * len(registers)
        self.written = set()
        self.count = 0
        self.words = array.array("Q", [STACK_LOW, STACK_LOW + STACK_SIZE])
        self.out = out
        self.exit_code = None

    def instruction(self, machine, address, size, _):
        values = machine.reg_read_batch(self.registers)
        changed = 0
        news = []
        for number, (old, new) in enumerate(zip(self.values, values)):
            if old != new:
                changed |= 1 << number
                news.append(new)
        self.values = values
        words = self.words
        words.append(changed)
        words.extend(news)
        words.append(len(self.written))
        for place in sorted(self.written):
            words.append(place)
            words.append(int.from_bytes(machine.mem_read(place, 8), "little"))
        self.written.clear()
        self.count += 1
        if self.count > MOST_INSTRUCTIONS:
            machine.emu_stop()

    def write(self, machine, access, address, size, value, _):
        if STACK_LOW <= address < STACK_LOW + STACK_SIZE:
            self.written.update(range(address & ~7, address + size, 8))

    def system_call(self, machine, code_register):
        self.exit_code = machine.reg_read(code_register)
        machine.emu_stop()

    def finish(self):
        self.words.extend([END, self.exit_code])
        if sys.byteorder != "little":
            self.words.byteswap()
        self.out.write(self.words.tobytes())


def hook(machine, tracer, architecture):
    machine.hook_add(unicorn.UC_HOOK_CODE, tracer.instruction)
    machine.hook_add(unicorn.UC_HOOK_MEM_WRITE, tracer.write)
    if architecture == "arm64":

        def interrupt(machine, number, _):
            if number != 2:  # a supervisor call
                raise SystemExit(f"exception {number} at {machine.reg_read(arm64.UC_ARM64_REG_PC):#x}")
            tracer.system_call(machine, arm64.UC_ARM64_REG_X0)

        machine.hook_add(unicorn.UC_HOOK_INTR, interrupt)
    else:
        syscall = lambda machine, _: tracer.system_call(machine, x86.UC_X86_REG_RDI)
        machine.hook_add(unicorn.UC_HOOK_INSN, syscall, None, 1, 0, x86.UC_X86_INS_SYSCALL)


def main():
    number = lambda text: int(text, 0)
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("architecture", choices=["arm64", "x86_64"])
    arguments.add_argument("image")
    arguments.add_argument("base", type=number)
    arguments.add_argument("entry", type=number)
    arguments = arguments.parse_args()

    machine, registers = arm64_machine() if arguments.architecture == "arm64" else x86_64_machine()
    with open(arguments.image, "rb") as file:
        image = file.read()
    machine.mem_map(arguments.base, (len(image) + PAGE - 1) // PAGE * PAGE)
    machine.mem_write(arguments.base, image)
    machine.mem_map(STACK_LOW, STACK_SIZE)
    stack_pointer = arm64.UC_ARM64_REG_SP if arguments.architecture == "arm64" else x86.UC_X86_REG_RSP
    # Somewhat below the end: the ABIs keep arguments there.
    machine.reg_write(stack_pointer, STACK_LOW + STACK_SIZE - 64)

    tracer = Tracer(machine, registers, sys.stdout.buffer)
    hook(machine, tracer, arguments.architecture)
    try:
        machine.emu_start(arguments.entry, 0)
    except unicorn.UcError as error:
        raise SystemExit(f"{error} after {tracer.count} instructions")
    if tracer.exit_code is None:
        raise SystemExit(f"no system call after {tracer.count} instructions")
    tracer.finish()


if __name__ == "__main__":
    main()
