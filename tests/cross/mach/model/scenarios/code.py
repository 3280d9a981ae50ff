"""Where threads stand in code, and what is in their registers."""

from .. import check
from ..architecture import ARM64, X86_64
from ..results import Stop
from .base import Lab, at, in_innermost_leaf, scenario

# How many threads are captured at a time, beside the capturer and the main thread.
BATCH = 200


@scenario("a leaf, a prologue and an epilogue: every instruction")
def every_instruction(lab: Lab) -> str:
    functions = {"work": 3, "lean": 2, "saver": 2, "roomy": 2, "descend": 3, "sealed": 2}
    if lab.architecture is ARM64:
        functions["signed_recursion"] = 2
    program = lab.world().program
    stopped = []
    for function, argument in functions.items():
        inside = lambda name, offset, calls: not name.startswith("thread_start")
        stopped += program.run(function, argument, inside, most=10_000)
    for start in range(0, len(stopped), BATCH):
        world, _, _ = lab.worked()
        threads = [
            world.add_thread(thread, f"{program.name(thread.calls[0].pc)} at {thread.calls[0].pc:#x}")
            for thread in stopped[start : start + BATCH]
        ]
        check.equal("capture", world.capture(), 0)
        for thread in threads:
            check.whole(world, thread)
    return f"{len(stopped)} instructions"


@scenario("signed return addresses, of 36 and of 47 address bits", ARM64)
def signed(lab: Lab) -> str:
    seen = 0
    for bits in (36, 47):
        world, main, _ = lab.worked(address_bits=bits)
        threads = []
        for function in ("signed_recursion", "sealed"):
            for start in ("thread_start", "thread_start_recorded"):
                stopped = world.program.run(function, 5, at("leaf"), start=start)[0]
                threads.append(world.add_thread(stopped, f"{function} {start}"))
        check.equal("capture", world.capture(), 0)
        mask = ~((1 << bits) - 1) & ~(1 << 55) & (1 << 64) - 1
        check.equal("the mask", world.snapshot().pac, mask)
        for thread in threads:
            capture = check.frames(world, thread)
            # From the caller of the recursion's innermost function on: the leaf's own was not signed.
            raw = [frame.address for frame in capture.frames[2:]]
            signatures = [address & mask for address in raw]
            check.true("they are signed", all(signatures[:-1]) and len(set(signatures)) > 1)
            seen += sum(signature != 0 for signature in signatures)
        check.whole(world, main)
    return f"{seen} signatures"


@scenario("thread states of arm64e: pc, lr, sp and fp are signed", ARM64)
def signed_states(lab: Lab) -> None:
    for bits in (36, 47):
        world, main, _ = lab.worked(address_bits=bits)
        signature = 0x2A51_7FFF_FFFF_FFFF & ~((1 << bits) - 1) & ~(1 << 55)
        registers = [ARM64.pc, ARM64.sp, ARM64.fp, ARM64.lr]
        stopped = {
            "in a leaf": world.program.run("work", 3, in_innermost_leaf)[0],
            "in a prologue": world.program.run("descend", 3, lambda n, offset, calls: n == "descend" and offset == 4)[
                0
            ],
            "in a body": world.program.run("sealed", 3, lambda n, offset, calls: n == "sealed" and offset == 12)[0],
        }
        threads = [world.add_thread(thread, name) for name, thread in stopped.items()]
        for thread in threads:
            for register in registers:
                if thread.state[ARM64.state_index(register)]:
                    thread.state[ARM64.state_index(register)] |= signature
        check.equal("capture", world.capture(), 0)
        for thread in threads:
            check.whole(world, thread)


@scenario("sizes of addresses that the system does not tell")
def address_bits(lab: Lab) -> None:
    world = lab.world()
    main = world.add_thread(world.program.run("work", 3, in_innermost_leaf)[0], "main")
    world.add_capturer()
    world.kernel.fails = lambda call: call.name == "sysctlbyname"
    world.init()
    world.refresh()
    check.equal("capture", world.capture(), 0)
    mask = 0 if lab.architecture is X86_64 else 0xFF7F_8000_0000_0000
    check.equal("the mask", world.snapshot().pac, mask)
    check.whole(world, main)


@scenario("code in no image")
def no_image(lab: Lab) -> None:
    # The image of the functions is gone from the list, but threads still stand there.
    world, main, _ = lab.worked()
    world.dyld.unload(world.program.image)
    check.true("refresh", world.refresh())
    check.equal("capture", world.capture(), 0)
    capture = check.frames(world, main, count=1)
    check.equal("the stop reason", (capture.stop, capture.stop_address), (Stop.NOT_CODE, world.calls_of(main)[0].pc))
