"""A kernel call that fails, at each position in turn."""

from collections import Counter

from .. import check
from ..kernel import Call
from ..results import Held, Stop, Trust
from ..threads import Thread
from ..world import World
from .base import Lab, at, scenario

ALL = ((300, 0), (300, 0))


def _world(lab: Lab) -> tuple[World, list[Thread]]:
    world = lab.world()
    stopped = world.program.run("work", 3, at("leaf"), most=3)
    deep = world.program.run("roomy", 150, at("leaf"))
    names = ["main", "first", "second", "deep"]
    threads = [world.add_thread(thread, name) for name, thread in zip(names, stopped + deep, strict=True)]
    world.add_capturer()
    return world, threads


def _run(world: World) -> int:
    """All that a user does. Rules are checked all the while."""
    world.init()
    world.refresh()
    return world.capture(depth=ALL)


@scenario("a kernel call fails, at each position in turn")
def each_call_fails(lab: Lab) -> str:
    clean, threads = _world(lab)
    check.equal("capture", _run(clean), 0)
    for thread in threads:
        check.whole(clean, thread)
    calls = list(clean.kernel.calls)
    failed: Counter[str] = Counter()
    for position in range(len(calls)):
        world, threads = _world(lab)
        happened: list[str] = []

        def fails(call: Call) -> bool:
            if call.index == position:
                happened.append(call.name)
            return call.index == position

        world.kernel.fails = fails
        result = _run(world)
        failed.update(happened)
        world.kernel.fails = lambda call: False
        _nothing_is_made_up(world, threads, calls[position].name, result)
        # Whatever has failed, the next capture is a whole one.
        check.true("refresh", world.refresh())
        check.equal("capture", world.capture(depth=ALL), 0)
        for thread in threads:
            if thread.alive:
                check.whole(world, thread)
    names = ", ".join(f"{name} {count}" for name, count in failed.most_common(3))
    return f"{sum(failed.values())} calls of {len(failed)} kinds ({names}, …)"


@scenario("all kernel calls fail from a position on")
def all_later_calls_fail(lab: Lab) -> str:
    clean, _ = _world(lab)
    _run(clean)
    for position in range(len(clean.kernel.calls)):
        world, threads = _world(lab)
        world.kernel.fails = lambda call: call.index >= position
        result = _run(world)
        _nothing_is_made_up(world, threads, "task_threads", result)
        world.kernel.fails = lambda call: False
        world.init()
        check.true("refresh", world.refresh())
        check.equal("capture", world.capture(depth=ALL), 0)
        for thread in threads:
            if thread.alive:
                check.whole(world, thread)
    return f"at {len(clean.kernel.calls)} positions"


@scenario("all kernel calls of one kind fail")
def each_kind_fails(lab: Lab) -> str:
    clean, _ = _world(lab)
    _run(clean)
    names = sorted({call.name for call in clean.kernel.calls})
    for name in names:
        world, threads = _world(lab)
        world.kernel.fails = lambda call: call.name == name
        result = _run(world)
        _nothing_is_made_up(world, threads, name, result)
        world.kernel.fails = lambda call: False
        world.init()
        check.true("refresh", world.refresh())
        check.equal(f"capture after {name}", world.capture(depth=ALL), 0)
        for thread in threads:
            if thread.alive:
                check.whole(world, thread)
    return f"{len(names)} kinds"


def _nothing_is_made_up(world: World, threads: list[Thread], name: str, result: int) -> None:
    """Frames of a capture with a failure are calls that go on, in their order, if not all of them."""
    if result != 0:
        check.equal("the call whose failure ends a capture", name, "task_threads")
        return
    listed = [capture.id for capture in world.threads()]
    check.equal(f"threads when {name} fails", listed[:-1], [thread.port for thread in threads])
    for thread in threads:
        capture = world.thread(thread)
        calls = iter([(call.pc, call.sp) for call in world.calls_of(thread)])
        strangers = [frame for frame in capture.frames if (frame.address, frame.sp) not in calls]
        check.equal(f"frames that are none, when {name} fails", strangers, [])
        if capture.held is not Held.MACH:
            continue
        check.true("it has registers", capture.has_registers and capture.kept > 0)
        # Whoever says that nothing is missing has all, unless a frame is marked as a guess.
        guessed = any(frame.trust is Trust.FRAME_POINTER for frame in capture.frames)
        if capture.stop is Stop.END_OF_STACK and not guessed:
            complete = len(capture.frames) == len(world.calls_of(thread))
            check.true(f"the end of the stack of {thread.name.decode()} is said when {name} fails", complete)
