"""Stacks with holes, deep stacks, and stacks that are not what they should be."""

import struct

from .. import check
from ..architecture import ARM64
from ..macho import READ
from ..results import Stop
from ..threads import Thread
from ..world import World
from .base import Lab, at, scenario

# How much of a stack the core copies at a time.
WINDOW = 65_536
# Above all stacks, and with nothing there.
NOWHERE = 0x7800_0000_0000


@scenario("64 frames, and what they cost")
def sixty_four_frames(lab: Lab) -> str:
    world, _, _ = lab.worked()
    thread = world.add_thread(world.program.run("descend", 61, at("leaf"))[0], "deep")
    check.equal("its depth", len(world.calls_of(thread)), 64)
    check.equal("capture", world.capture(), 0)
    capture = check.whole(world, thread)
    check.equal("the recursion", capture.repeat, (2, 1, 61))
    calls = world.last_hold(thread).calls
    copies = calls.count("vm_read_overwrite")
    check.true(f"{copies} copies", copies <= 2)
    check.equal("copies as the core counts them", capture.copies, 1)
    return f"kernel calls per captured thread (64 frames): {len(calls)}, copies {copies}"


@scenario("a stack with a hole at each page")
def holes(lab: Lab) -> str:
    page = lab.architecture.page
    depth = 5 * page // 1024
    pages = 0
    for protection in (None, 0):
        number = 0
        while True:
            world, main, _ = lab.worked()
            stopped = world.program.run("roomy", depth, at("leaf"))[0]
            thread = world.add_thread(stopped, "holed")
            calls = world.calls_of(thread)
            hole = (calls[0].sp & -page) + number * page
            if thread.port not in world.memory.stacks_in(hole, 1):
                break
            _dig(world, hole, page, protection)
            check.equal("capture", world.capture(), 0)
            _walk_ends_at(world, thread, range(hole, hole + page))
            first = next(held for held in world.kernel.held if held.port == thread.port)
            if hole - calls[0].sp < WINDOW:
                copies = first.calls.count("vm_read_overwrite")
                check.true("one copy brings what can be read of a window", copies <= 1)
            check.whole(world, main)
            number += 1
            pages += 1
    check.true("there are pages", pages >= 10)
    return f"{pages} pages"


def _dig(world: World, hole: int, page: int, protection: int | None) -> None:
    """Makes a page unreadable, or takes it away."""
    region = world.memory.split(hole, page)
    if protection is None:
        world.memory.remove(hole)
    else:
        region.protection = protection


def _walk_ends_at(world: World, thread: Thread, hole: range) -> None:
    """All frames below a hole are there, and the walk ends at the first record in it."""
    calls = world.calls_of(thread)
    # Where the return address to each caller lies. leaf's is in a register on arm64.
    places = [call.sp - 8 for call in calls[1:]]
    if world.architecture is ARM64:
        places[0] = 0
    reached = next((index for index, place in enumerate(places) if place in hole), None)
    if reached is None:
        check.whole(world, thread)
        return
    capture = check.frames(world, thread, count=reached + 1)
    check.equal("the stop reason", (capture.stop, capture.stop_address), (Stop.UNREADABLE, places[reached]))
    check.held(world, thread, capture)


@scenario("a stack deeper than the window")
def deep(lab: Lab) -> str:
    world, main, _ = lab.worked()
    stopped = world.program.run("roomy", 400, at("leaf"))[0]
    thread = world.add_thread(stopped, "deep")
    calls = world.calls_of(thread)
    size = calls[-1].sp - calls[0].sp
    check.true("it is deeper than six windows", size > 6 * WINDOW)
    check.equal("capture of all frames", world.capture(first=thread, depth=((500, 0), (32, 32))), 0)
    capture = check.whole(world, thread)
    check.equal("the recursion", capture.repeat[1:], (1, 400))
    check.whole(world, main)
    copies = capture.copies
    check.true(f"{copies} copies", size // WINDOW <= copies <= size // WINDOW + 3)
    # Both ends, and the exact number between them.
    check.equal("capture of both ends", world.capture(first=main, depth=((192, 64), (10, 5))), 0)
    capture = world.thread(thread)
    check.equal("kept and left out", (capture.kept, capture.omitted_after, capture.omitted), (15, 10, len(calls) - 15))
    ends = calls[:10] + calls[-5:]
    check.equal("both ends", [(f.address, f.sp) for f in capture.frames], [(call.pc, call.sp) for call in ends])
    return f"{size // 1024} KiB, {copies} copies"


@scenario("fp = 0 at thread_start")
def thread_starts(lab: Lab) -> None:
    world, _, _ = lab.worked()
    plain = world.add_thread(world.program.run("descend", 2, at("leaf"))[0], "plain")
    recorded = world.program.run("descend", 2, at("leaf"), start="thread_start_recorded")[0]
    recorded = world.add_thread(recorded, "recorded")
    check.equal("capture", world.capture(), 0)
    check.equal(
        "its outermost function", world.program.name(check.whole(world, plain).frames[-1].address), "thread_start"
    )
    capture = check.frames(world, recorded)
    check.equal("its outermost function", world.program.name(capture.frames[-1].address), "thread_start_recorded")
    check.equal("the stop reason", capture.stop, Stop.NULL_RETURN_ADDRESS)


@scenario("cyclic, self-pointing and wild frame records")
def broken_chains(lab: Lab) -> str:
    # What the third record holds instead of the next one's address, and how that has to end.
    variants = {
        "itself": (lambda records: records[2], Stop.NOT_ASCENDING),
        "the one before": (lambda records: records[1], Stop.NOT_ASCENDING),
        "overlapping": (lambda records: records[2] + 8, Stop.NOT_CODE),
        "far above": (lambda records: NOWHERE, Stop.UNREADABLE),
        "in the null page": (lambda records: 16, Stop.UNREADABLE),
        "misaligned": (lambda records: records[3] + 3, Stop.NOT_CODE),
        "at the top": (lambda records: (1 << 64) - 8, Stop.UNREADABLE),
    }
    for name, (change, stop) in variants.items():
        world, main, _ = lab.worked()
        thread = world.add_thread(world.program.run("descend", 6, at("leaf"))[0], name)
        calls = world.calls_of(thread)
        # leaf's caller and so on: each has its record beneath where its caller's stack pointer is after the return.
        records = [call.sp - 16 for call in calls[2:]]
        fp = change(records)
        world.memory.write(records[2], struct.pack("<Q", fp))
        check.equal("capture", world.capture(), 0)
        # The record itself still names its caller; whose frame is what was changed.
        capture = check.frames(world, thread, count=5)
        # cfa = fp + 16, pc = *(cfa - 8)
        slot = (fp + 8) & (1 << 64) - 1
        address = {
            Stop.NOT_ASCENDING: lambda: fp + 16,
            Stop.UNREADABLE: lambda: slot,
            Stop.NOT_CODE: lambda: int.from_bytes(world.memory.read(slot, 8), "little"),
        }
        where = check.stripped(world, address[stop]())
        check.equal(f"{name}: the stop reason", (capture.stop, capture.stop_address), (stop, where))
        check.held(world, thread, capture)
        check.whole(world, main)
    return f"{len(variants)} of them"


@scenario("registers that lead nowhere")
def wild_registers(lab: Lab) -> None:
    architecture = lab.architecture
    pc, sp, fp = (architecture.state_index(r) for r in (architecture.pc, architecture.sp, architecture.fp))
    for value in (0, 8, NOWHERE, (1 << 64) - 16, (1 << 63) + 8):
        for which in ((pc,), (sp,), (fp,), (sp, fp), (pc, sp, fp)):
            world, main, _ = lab.worked()
            thread = world.add_thread(world.program.run("descend", 6, at("leaf"))[0], "wild")
            for register in which:
                thread.state[register] = value
            check.equal("capture", world.capture(), 0)
            capture = world.thread(thread)
            check.held(world, thread, capture)
            # Where it stands, and at most its calls: nothing is made up.
            true_calls = {call.pc for call in world.calls_of(thread)}
            made_up = [frame for frame in capture.frames[1:] if frame.address not in true_calls]
            check.equal("frames that are none", made_up, [])
            check.whole(world, main)


@scenario("a stack of regions with different protections")
def regions(lab: Lab) -> None:
    world, _, _ = lab.worked()
    page = lab.architecture.page
    thread = world.add_thread(world.program.run("roomy", 5 * page // 1024, at("leaf"))[0], "pieces")
    middle = (world.calls_of(thread)[0].sp & -page) + 2 * page
    world.memory.split(middle, page).protection = READ
    check.equal("capture", world.capture(), 0)
    check.whole(world, thread)
