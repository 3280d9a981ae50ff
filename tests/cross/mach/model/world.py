"""A task with the core in it: everything that a scenario needs, in one place.

    0x1_0468_0000   the core's image                    the machine's memory: the core may touch it
    0x1_0a40_0000   the program's image                 only the kernel can read it
    0x1_3000_0000   what is asked of the driver, and its answers
    0x1_6c00_0000   the capturing thread's stack        the machine's memory
    0x1_8000_0000   what the kernel allocates           the machine's memory
    0x1_9a00_0000   dyld
    0x1_b000_0000   dyld's list of images               only the kernel can read it
    0x1_f000_0000   what the core imports

Where the other threads' stacks are depends on the architecture; only the kernel can read them.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from . import macho, results
from .architecture import Architecture
from .dyld import Dyld
from .kernel import TASK, Call, Held, Kernel
from .library import Library
from .machine import TRAPS, TRAPS_SIZE, Machine
from .macho import EXECUTE, READ, WRITE, Image
from .memory import AddressSpace
from .program import Place, Program, Stopped
from .rules import Broken, Rule
from .threads import Thread

CORE = 0x1_0468_0000
PROGRAM = 0x1_0A40_0000
ANSWERS = 0x1_3000_0000
ANSWERS_SIZE = 0x8_0000
CAPTURER_STACK = 0x1_6C00_0000
CAPTURER_STACK_SIZE = 0x8_0000
LOADER_STACK = 0x1_6D00_0000
STACK_DISTANCE = 0x20_0000
DYLD = 0x1_9A00_0000
DYLD_UUID = bytes(range(16))
SYSTEM_UUID = bytes(range(16, 32))
TASK_CELL = 0x1_2000_0000
DEFAULT_DEPTH = ((192, 64), (64, 32))


@dataclass(frozen=True)
class Files:
    """The Mach-O files that scenarios need, for one architecture."""

    core: Path
    mischief: Path
    targets: Path


class World:
    """A task with the core loaded into it, and a capturing thread."""

    def __init__(
        self,
        architecture: Architecture,
        files: Files,
        *,
        address_bits: int = 47,
        mischief: bool = False,
        unknown: tuple[str, ...] = (),
    ):
        self.architecture = architecture
        # What the model is to know nothing of.
        self._unknown = unknown
        self.machine = Machine(architecture, address_bits)
        self.memory = AddressSpace(self.machine)
        dyld = macho.empty("/usr/lib/dyld", architecture, DYLD, uuid=DYLD_UUID)
        self.dyld = Dyld(self.memory, dyld)
        self.dyld.call = self._call_back
        self.kernel = Kernel(self.machine, self.memory, self.dyld, address_bits)
        self.core = macho.load(files.mischief if mischief else files.core, architecture, CORE)
        self.program = Program(macho.load(files.targets, architecture, PROGRAM), architecture, address_bits)
        self._load_core()
        self._bind()
        self.load(self.program.image)
        # Only while the driver answers, the core may write there.
        self.machine.map(ANSWERS, ANSWERS_SIZE, READ)
        self._answers = self.memory.add_machine(ANSWERS, ANSWERS_SIZE, READ)
        self._map_stack(CAPTURER_STACK)
        self._map_stack(LOADER_STACK)
        self._stacks = architecture.stacks
        self._calls: dict[int, list[Place]] = {}
        # What the latest capture has brought, once it was asked for.
        self._snapshot: results.Snapshot | None = None
        self._captured: list[results.ThreadCapture] | None = None

    # What a scenario lays out.

    def load(self, image: Image) -> None:
        """An image that the core has no business with comes."""
        self.memory.add_image(image)
        self.dyld.load(image)

    def unload(self, image: Image) -> None:
        """It goes, and its memory with it."""
        self.dyld.unload(image)
        for segment in image.segments:
            self.memory.remove(segment.address)

    def add_thread(self, stopped: Stopped, name: str = "", **fields: object) -> Thread:
        """A thread that stands where a program was stopped, on a stack at its own place.

        What points into the stack is moved with it. Above the stack there is a hole.
        """
        top = self._stacks + STACK_DISTANCE
        self._stacks = top
        distance = top - stopped.top
        inside = range(stopped.low, stopped.top + 1)
        move = lambda word: word + distance if word in inside else word
        words = struct.unpack(f"<{len(stopped.stack) // 8}Q", stopped.stack)
        stack = struct.pack(f"<{len(words)}Q", *map(move, words))
        thread = self.kernel.new_thread(name=name.encode(), state=list(map(move, stopped.state)), **fields)
        self.memory.add(top - len(stopped.stack), stack, stack_of=thread.port)
        self._calls[thread.port] = [Place(call.pc, call.sp + distance) for call in stopped.calls]
        return thread

    def calls_of(self, thread: Thread) -> list[Place]:
        """The calls that go on in a thread, innermost first."""
        return self._calls[thread.port]

    def add_capturer(self, name: str = "watcher", **fields: object) -> Thread:
        """The thread that executes the core's code."""
        thread = self.kernel.new_thread(name=name.encode(), **fields)
        self.kernel.capturer = self.kernel.current = thread
        self.kernel.stack = range(CAPTURER_STACK, CAPTURER_STACK + CAPTURER_STACK_SIZE)
        return thread

    @contextmanager
    def on(self, thread: Thread) -> Iterator[None]:
        """What is called meanwhile, is called by another thread than the capturer, on a stack of its own."""
        outer = self.kernel.current, self.kernel.stack
        self.kernel.current, self.kernel.stack = thread, range(LOADER_STACK, LOADER_STACK + CAPTURER_STACK_SIZE)
        yield
        self.kernel.current, self.kernel.stack = outer

    # What the core is asked to do.

    def init(self) -> None:
        if self._call("driver_init") != 0:
            raise AssertionError("init failed")

    def refresh(self) -> bool:
        return self._call("driver_refresh") == 0

    def exempt(self, thread: Thread | None) -> None:
        self._call("driver_exempt", thread.port if thread else 0)

    def capture(
        self,
        *,
        first: Thread | None = None,
        exclude: tuple[Thread, ...] = (),
        depth: tuple[tuple[int, int], tuple[int, int]] = DEFAULT_DEPTH,
        still: bool = True,
    ) -> int:
        """Captures all threads; returns what the driver returns."""
        self._snapshot = self._captured = None
        excluded = ANSWERS + 256
        (first_inner, first_outer), (inner, outer) = depth
        words = (first.port if first else 0, excluded, len(exclude), first_inner, first_outer, inner, outer, still)
        self.machine.write(ANSWERS, struct.pack("<8Q", *words))
        self.machine.write(excluded, b"".join(thread.port.to_bytes(4, "little") for thread in exclude))
        return self._call("driver_capture", ANSWERS)

    def call(self, function: str, *arguments: int) -> int:
        """Any other entry point."""
        return self._call(function, *arguments)

    # What the driver tells of it.

    def snapshot(self) -> results.Snapshot:
        if self._snapshot is None:
            self._snapshot = results.snapshot(self._ask("driver_snapshot", results.Snapshot.FORMAT)[1])
        return self._snapshot

    def threads(self) -> list[results.ThreadCapture]:
        if self._captured is None:
            self._captured = [self._thread(index) for index in range(self.snapshot().threads)]
        return self._captured

    def thread(self, thread: Thread) -> results.ThreadCapture:
        """What was captured of a thread."""
        return next(capture for capture in self.threads() if capture.id == thread.port)

    def images(self) -> list[results.ImageEntry]:
        images = []
        while True:
            answer, data = self._ask("driver_image", results.ImageEntry.FORMAT, len(images))
            if answer != 0:
                return images
            images.append(results.image(data))

    def stack_of_capture(self) -> int:
        """Captures, and returns how many bytes of its stack that has touched."""
        untouched = b"\xa5" * CAPTURER_STACK_SIZE
        self.machine.write(CAPTURER_STACK, untouched)
        self.capture()
        stack = self.machine.read(CAPTURER_STACK, CAPTURER_STACK_SIZE)
        return CAPTURER_STACK_SIZE - next(at for at, byte in enumerate(stack) if byte != untouched[0])

    def last_hold(self, thread: Thread) -> Held:
        """How a thread was held the last time."""
        return [held for held in self.kernel.held if held.port == thread.port][-1]

    def calls(self, name: str) -> list[Call]:
        return [call for call in self.kernel.calls if call.name == name]

    # The machinery.

    def _load_core(self) -> None:
        self.machine.load(self.core)
        for segment in self.core.segments:
            self.memory.add_machine(segment.address, segment.size, segment.protection)
        # What calls the core lies in an image, too, though in one without tables.
        size = self.architecture.page
        system = macho.empty(
            "/usr/lib/libSystem.B.dylib", self.architecture, TRAPS - size, SYSTEM_UUID, size + TRAPS_SIZE, 6
        )
        self.memory.add(system.load_address, system.segments[0].data[:size], READ | EXECUTE)
        self.memory.add_machine(TRAPS, TRAPS_SIZE, READ | EXECUTE)
        self.dyld.load(system)
        self.dyld.load(self.core)

    def _bind(self) -> None:
        known = self.kernel.imports() | Library(self.machine, self.memory).imports()
        self.machine.map(TASK_CELL, self.architecture.page, READ, TASK.to_bytes(4, "little"))
        # Lazy binding is done here already; nobody may come to ask for it.
        known["dyld_stub_binder"] = lambda: self._unexpected("dyld_stub_binder")
        for symbol, places in self.core.imports.items():
            if symbol == "_mach_task_self_":
                address = TASK_CELL
            elif symbol in known and symbol not in self._unknown:
                address = self.machine.trap(known[symbol])
            else:
                raise Broken(Rule.UNKNOWN_IMPORT, symbol)
            for place in places:
                self.machine.write(place, address.to_bytes(8, "little"))

    def _unexpected(self, symbol: str) -> None:
        raise Broken(Rule.UNKNOWN_IMPORT, symbol)

    def _map_stack(self, start: int) -> None:
        self.machine.map(start, CAPTURER_STACK_SIZE, READ | WRITE)
        self.memory.add_machine(start, CAPTURER_STACK_SIZE)

    def _call(self, function: str, *arguments: int) -> int:
        result = self.machine.call(
            self.core.symbols[f"_{function}"], list(arguments), CAPTURER_STACK + CAPTURER_STACK_SIZE
        )
        self.kernel.check_quiet()
        return struct.unpack("<i", (result & 0xFFFF_FFFF).to_bytes(4, "little"))[0]

    def _call_back(self, function: int, header: int, slide: int) -> None:
        """dyld calls the core, on the stack of whoever loads or unloads an image."""
        if self.kernel.stack and self.machine.sp() in self.kernel.stack:
            self.machine.call(function, [header, slide & (1 << 64) - 1], self.machine.sp() - 256)
        else:
            outer = self.kernel.stack
            self.kernel.stack = range(LOADER_STACK, LOADER_STACK + CAPTURER_STACK_SIZE)
            self.machine.call(function, [header, slide & (1 << 64) - 1], LOADER_STACK + CAPTURER_STACK_SIZE)
            self.kernel.stack = outer

    def _ask(self, function: str, layout: str, *arguments: int, count: int = 1) -> tuple[int, bytes]:
        self._protect_answers(READ | WRITE)
        answer = self._call(function, *arguments, ANSWERS)
        self._protect_answers(READ)
        return answer, self.machine.read(ANSWERS, struct.calcsize(layout) * count)

    def _protect_answers(self, protection: int) -> None:
        self.machine.protect(ANSWERS, ANSWERS_SIZE, protection)
        self._answers.protection = protection

    def _thread(self, index: int) -> results.ThreadCapture:
        head = results.thread(self._ask("driver_thread", results.ThreadCapture.FORMAT, index)[1], [])
        frames = self._ask("driver_frames", results.Frame.FORMAT, index, count=head.kept)[1]
        return replace(head, frames=results.frames(frames))
