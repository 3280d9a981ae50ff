"""Threads that stand somewhere in compiled code: it is run until there, and the calls that go on are written down."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import unicorn

from .architecture import Architecture
from .machine import Machine
from .macho import READ, WRITE, Image

# Every thread's stack is run at the same place, and moved to its own afterwards: what points into it moves, too.
STACK_TOP = 0x1_6F00_0000
MOST_STACK = 1 << 20
MOST_INSTRUCTIONS = 2_000_000


@dataclass(frozen=True)
class Place:
    """Where a frame's code is, and its stack pointer: after the call, for all but the innermost."""

    pc: int
    sp: int


@dataclass
class Stopped:
    """A thread as it stands: registers as Mach gives them, the end of its stack, and its calls, innermost first."""

    state: list[int]
    top: int
    # From the stack pointer, or what the ABI keeps beneath it, to `top`.
    stack: bytes
    calls: list[Place]

    @property
    def low(self) -> int:
        return self.top - len(self.stack)


@dataclass(frozen=True)
class Program:
    """The image whose functions threads are in."""

    image: Image
    architecture: Architecture
    address_bits: int

    def function(self, name: str) -> int:
        return self.image.symbols[f"_{name}"]

    def name(self, pc: int) -> str:
        return self.image.function_at(pc).removeprefix("_")

    @functools.cache
    def run(
        self,
        function: str,
        argument: int,
        stop: Callable[[str, int, list[Place]], bool],
        *,
        start: str = "thread_start",
        top: int = STACK_TOP,
        most: int = 1,
    ) -> list[Stopped]:
        """Calls a function on a thread of its own, and takes the thread wherever `stop` says so.

        `stop` is asked before each instruction: in which function it is, at which offset, and in which calls. The same
        run with the same `stop` is done once.
        """
        machine = Machine(self.architecture, self.address_bits)
        machine.load(self.image)
        machine.map(top - MOST_STACK, MOST_STACK, READ | WRITE)
        run = _Run(self, machine, stop, top, most)
        machine.uc.hook_add(unicorn.UC_HOOK_CODE, run.before)
        first, second = self.architecture.arguments[:2]
        machine.uc.reg_write(first, self.function(function))
        machine.uc.reg_write(second, argument)
        machine.uc.reg_write(self.architecture.sp, top - 32)
        machine.uc.emu_start(self.function(start), 0, count=MOST_INSTRUCTIONS)
        if run.failure:
            raise run.failure
        if not run.stopped:
            raise ValueError(f"{function} does not come to where it should be stopped")
        return run.stopped


class _Run:
    """One run, with the calls that go on."""

    def __init__(self, program: Program, machine: Machine, stop, top: int, most: int):
        self.program, self.machine, self.stop, self.top, self.most = program, machine, stop, top, most
        self.stopped: list[Stopped] = []
        self.failure: Exception | None = None
        # Of each call: where it returns to, and the stack pointer then.
        self._calls: list[Place] = []
        self._called: Place | None = None

    def before(self, uc: unicorn.Uc, pc: int, size: int, _data: object) -> None:
        try:
            self._before(uc, pc, size)
        except Exception as failure:  # to be raised again where the emulation was started
            self.failure = failure
            uc.emu_stop()

    def _before(self, uc: unicorn.Uc, pc: int, size: int) -> None:
        architecture = self.program.architecture
        sp = uc.reg_read(architecture.sp)
        if self._calls == [Place(pc, sp)]:
            # Back where the thread has begun.
            uc.emu_stop()
            return
        if self._called is not None:
            self._calls.append(self._called)
        elif self._calls and self._calls[-1] == Place(pc, sp):
            self._calls.pop()
        code = self.machine.read(pc, size)
        self._called = Place(pc + size, sp) if architecture.is_call(code) else None
        calls = [Place(pc, sp), *reversed(self._calls)]
        name = self.program.name(pc)
        if self.stop(name, pc - self.program.function(name), calls):
            # x86_64 keeps 128 bytes beneath the stack pointer for leaves.
            low = (sp - 128) & ~(architecture.page - 1)
            state = [uc.reg_read(register) for register in architecture.state]
            self.stopped.append(Stopped(state, self.top, self.machine.read(low, self.top - low), calls))
            if len(self.stopped) == self.most:
                uc.emu_stop()
