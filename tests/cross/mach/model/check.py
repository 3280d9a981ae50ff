"""What is asserted of a capture."""

from typing import Any

from .architecture import ARM64
from .results import Held, Stop, SuspendError, ThreadCapture, Trust
from .threads import Thread
from .world import World

# How the functions of the targets are described, and so by what the walk leaves them.
BY_COMPACT = {"leaf", "descend", "roomy", "saver", "work", "signed_recursion"}
# arm64 has no compact unwind information for them.
BY_CFI_ON_ARM64 = {"lean", "sealed"}
HELD_CALLS = {"thread_suspend", "thread_get_state", "vm_region_64", "vm_read_overwrite", "thread_resume"}


class Wrong(Exception):
    """Something is not as it should be."""


def equal(what: str, actual: Any, expected: Any) -> None:
    if actual != expected:
        raise Wrong(f"{what}: {_show(actual)}, and not {_show(expected)}")


def true(what: str, condition: bool) -> None:
    if not condition:
        raise Wrong(what)


def stripped(world: World, address: int) -> int:
    """A code address without its signature: those bits become copies of bit 55."""
    mask = world.snapshot().pac
    return address | mask if address >> 55 & 1 else address & ~mask


def frames(world: World, thread: Thread, *, count: int | None = None) -> ThreadCapture:
    """The frames of a thread that was held are the calls that go on in it: the innermost `count`, or all."""
    capture = world.thread(thread)
    calls = world.calls_of(thread)[:count]
    actual = [(stripped(world, frame.address), frame.sp, frame.returns) for frame in capture.frames]
    wanted = [(call.pc, call.sp, index > 0) for index, call in enumerate(calls)]
    equal(f"frames of {thread.name.decode()}", actual, wanted)
    for index, frame in enumerate(capture.frames):
        expected = _trust(world, capture, index)
        true(f"frame {index} of {thread.name.decode()} comes from {frame.trust.name}", frame.trust in expected)
    return capture


def whole(world: World, thread: Thread) -> ThreadCapture:
    """A thread was held, all its calls are there, and its stack ends as stacks do."""
    capture = frames(world, thread)
    equal("the stop reason", capture.stop, Stop.END_OF_STACK)
    equal("frames left out", capture.omitted, 0)
    held(world, thread, capture)
    return capture


def held(world: World, thread: Thread, capture: ThreadCapture) -> None:
    """A thread was held, for no longer than the model has seen it stand."""
    equal("how it was held", (capture.held, capture.error), (Held.MACH, SuspendError.NONE))
    hold = world.last_hold(thread)
    # The readings of the clock on both sides, and the calls between them and the hold.
    slack = 2_000
    stood = hold.until_ns - hold.since_ns
    true(f"held for {capture.held_ns} ns, but it stood for {stood}", stood <= capture.held_ns <= stood + slack)
    true(f"while it was held: {hold.calls}", set(hold.calls) <= HELD_CALLS)


def not_held(world: World, thread: Thread, error: SuspendError) -> ThreadCapture:
    """A thread is listed without a stack, with the reason."""
    capture = world.thread(thread)
    equal("how it was held", (capture.held, capture.error), (Held.NOT, error))
    equal("what is known of its stack", (capture.has_registers, capture.frames, capture.held_ns), (False, [], 0))
    return capture


def capturer(world: World, thread: Thread) -> None:
    """The capturing thread has its own stack, from the core outward, and was not held."""
    capture = world.thread(thread)
    equal("how the capturer was held", capture.held, Held.ITSELF)
    core = world.core.text
    inner, outer = capture.frames[:-1], capture.frames[-1]
    true("it has frames in the core", len(inner) > 0)
    true("they lie in its code", all(frame.address - core.address in range(core.size) for frame in inner))
    equal("its caller", outer.address, world.machine.end)
    equal("the end of its stack", capture.stop, Stop.END_OF_STACK)


def _trust(world: World, capture: ThreadCapture, index: int) -> set[Trust]:
    if index == 0:
        return {Trust.CONTEXT}
    left = world.program.name(stripped(world, capture.frames[index - 1].address))
    if left in BY_CFI_ON_ARM64 and world.architecture is ARM64:
        # Where the thread stands, an epilogue is read from its instructions.
        return {Trust.CFI, Trust.COMPACT} if index == 1 else {Trust.CFI}
    if left in BY_COMPACT | BY_CFI_ON_ARM64:
        return {Trust.COMPACT}
    return {Trust.FRAME_POINTER}


def _show(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return "[" + ", ".join(f"{pc:#x}/{sp:#x}" for pc, sp, *_ in value) + "]"
    return hex(value) if isinstance(value, int) and not isinstance(value, bool) and value > 9999 else str(value)
