"""What differs between the two processors."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import unicorn
from unicorn import arm64_const as arm64
from unicorn import x86_const as x86

# The emulated processors are set up as for the walks at every instruction.
sys.path.append(str(Path(__file__).resolve().parents[3] / "truth"))
import emulate  # noqa: E402


@dataclass(frozen=True)
class Architecture:
    """A processor, its calling convention, and the register file that Mach hands over."""

    name: str
    # As Rust and clang call it.
    target: str
    page: int
    # Where threads have their stacks.
    stacks: int
    new_machine: Callable[[int], unicorn.Uc]
    arguments: tuple[int, ...]
    result: int
    pc: int
    sp: int
    fp: int
    # The link register, where a call leaves its return address; None if it is pushed.
    lr: int | None
    # thread_get_state: the flavour, and unicorn's numbers of the registers in the order of its words of 64 bits.
    state_flavor: int
    state: tuple[int, ...]
    # How many words of 32 bits that is; the rest, flags and segments, are zero.
    state_count: int
    # An instruction that returns from a function.
    return_instruction: bytes
    # Whether these bytes are a call.
    is_call: Callable[[bytes], bool]

    def state_index(self, register: int) -> int:
        """Which word of the register file it is."""
        return self.state.index(register)


def _arm64_machine(address_bits: int) -> unicorn.Uc:
    machine, _ = emulate.arm64_machine()
    # TCR_EL1.T0SZ: above so many bits, addresses hold signatures.
    machine.reg_write(arm64.UC_ARM64_REG_CP_REG, (2, 0, 3, 0, 2, 64 - address_bits))
    return machine


def _arm64_call(code: bytes) -> bool:
    word = int.from_bytes(code, "little")
    return word & 0xFC00_0000 == 0x9400_0000 or word & 0xFFFF_FC1F == 0xD63F_0000


def _x86_64_call(code: bytes) -> bool:
    return code[0] == 0xE8 or (code[0] == 0xFF and code[1] >> 3 & 7 == 2)


ARM64 = Architecture(
    name="arm64",
    target="aarch64",
    page=0x4000,
    stacks=0x1_7000_0000,
    new_machine=_arm64_machine,
    arguments=tuple(getattr(arm64, f"UC_ARM64_REG_X{n}") for n in range(8)),
    result=arm64.UC_ARM64_REG_X0,
    pc=arm64.UC_ARM64_REG_PC,
    sp=arm64.UC_ARM64_REG_SP,
    fp=arm64.UC_ARM64_REG_X29,
    lr=arm64.UC_ARM64_REG_X30,
    state_flavor=6,
    state=tuple(getattr(arm64, f"UC_ARM64_REG_{name}") for name in [f"X{n}" for n in range(31)] + ["SP", "PC"]),
    state_count=68,
    return_instruction=bytes.fromhex("c0035fd6"),
    is_call=_arm64_call,
)

X86_64 = Architecture(
    name="x86_64",
    target="x86_64",
    page=0x1000,
    stacks=0x7000_0400_0000,
    new_machine=lambda _: emulate.x86_64_machine()[0],
    arguments=tuple(getattr(x86, f"UC_X86_REG_{name}") for name in "RDI RSI RDX RCX R8 R9".split()),
    result=x86.UC_X86_REG_RAX,
    pc=x86.UC_X86_REG_RIP,
    sp=x86.UC_X86_REG_RSP,
    fp=x86.UC_X86_REG_RBP,
    lr=None,
    state_flavor=4,
    state=tuple(
        getattr(x86, f"UC_X86_REG_{name}")
        for name in "RAX RBX RCX RDX RDI RSI RBP RSP R8 R9 R10 R11 R12 R13 R14 R15 RIP".split()
    ),
    state_count=42,
    return_instruction=b"\xc3",
    is_call=_x86_64_call,
)

ARCHITECTURES = (ARM64, X86_64)
