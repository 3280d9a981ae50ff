"""Which threads there are, and what becomes of them during a capture."""

from .. import check
from ..kernel import Call
from ..results import SuspendError
from .base import Lab, at, in_innermost_leaf, scenario


@scenario("one thread")
def one_thread(lab: Lab) -> None:
    world, main, capturer = lab.worked()
    main.user_us, main.system_us, main.run_state = 1_500_000, 20_003, 1
    check.equal("capture", world.capture(), 0)
    snapshot = world.snapshot()
    check.equal("threads", (snapshot.threads, snapshot.dropped), (2, 0))
    check.true("times", 0 < snapshot.started_ns < snapshot.ended_ns <= world.kernel.now_ns)
    capture = check.whole(world, main)
    running = 1
    facts = (capture.main, capture.name, capture.cpu_ns, capture.state, capture.moved)
    check.equal("facts", facts, (True, b"main", 1_520_003_000, running, False))
    check.capturer(world, capturer)
    check.equal("the capturer's name", world.thread(capturer).name, b"watcher")
    check.equal("the second one is not main", world.thread(capturer).main, False)


@scenario("200 threads")
def two_hundred_threads(lab: Lab) -> str:
    world = lab.world()
    # Of five depths each, and in two functions.
    stopped = world.program.run("descend", 19, at("descend"), most=20) * 5
    stopped += world.program.run("roomy", 32, at("roomy"), most=33) * 3
    threads = [world.add_thread(thread, f"worker {number}") for number, thread in enumerate(stopped)]
    capturer = world.add_capturer()
    world.init()
    world.refresh()
    check.equal("capture", world.capture(), 0)
    check.equal("threads", (world.snapshot().threads, world.snapshot().dropped), (200, 0))
    check.equal("the order", [c.id for c in world.threads()], [thread.port for thread in [*threads, capturer]])
    for number, thread in enumerate(threads):
        capture = check.whole(world, thread)
        check.equal("its name and role", (capture.name, capture.main), (f"worker {number}".encode(), number == 0))
    check.capturer(world, capturer)
    holds = [held.until_ns - held.since_ns for held in world.kernel.held]
    check.equal("each is held once", len(holds), 199)
    return f"{sum(capture.kept for capture in world.threads())} frames"


@scenario("more threads than there is room for")
def too_many_threads(lab: Lab) -> str:
    world = lab.world()
    stopped = world.program.run("descend", 3, at("descend"))[0]
    threads = [world.add_thread(stopped, f"worker {number}") for number in range(299)]
    world.add_capturer()
    world.init()
    world.refresh()
    last = threads[-1]
    check.equal("capture", world.capture(first=last), 0)
    snapshot = world.snapshot()
    check.equal("threads and those left out", snapshot.threads + snapshot.dropped, 300)
    check.equal("the first two", [capture.id for capture in world.threads()][:2], [last.port, threads[0].port])
    check.whole(world, last)
    return f"{snapshot.dropped} left out"


@scenario("a thread that dies between listing and suspension")
def dies_before_suspension(lab: Lab) -> None:
    for name, held_before in [("thread_suspend", 0), ("thread_get_state", 1), ("vm_read_overwrite", 1)]:
        world, main, capturer = lab.worked()
        victim = world.add_thread(world.program.run("descend", 5, at("leaf"))[0], "victim")
        other = world.add_thread(world.program.run("roomy", 5, at("leaf"))[0], "other")

        def dies(call: Call) -> None:
            about_it = call.arguments and call.arguments[0] & 0xFFFF_FFFF == victim.port
            in_copy = call.name == "vm_read_overwrite" and victim.suspend_count
            if victim.alive and call.name == name and (about_it or in_copy):
                check.equal("its suspensions", victim.suspend_count, held_before)
                world.kernel.terminate(victim)

        world.kernel.watchers.append(dies)
        check.equal("capture", world.capture(), 0)
        check.true(f"it has died in {name}", not victim.alive)
        if name == "vm_read_overwrite":
            # Its stack is still there, and all that was to be had was had.
            check.frames(world, victim)
        else:
            check.not_held(world, victim, SuspendError.GONE)
        check.whole(world, main)
        check.whole(world, other)
        check.capturer(world, capturer)


@scenario("a thread that had ended before")
def ended_before(lab: Lab) -> None:
    world, main, _ = lab.worked()
    victim = world.add_thread(world.program.run("descend", 5, at("leaf"))[0], "victim")
    check.equal("capture", world.capture(first=victim), 0)
    check.whole(world, victim)
    world.kernel.terminate(victim)
    check.equal("capture of who is left", world.capture(), 0)
    check.equal("threads", world.snapshot().threads, 2)
    check.whole(world, main)
    # Who is asked for keeps its place.
    check.equal("capture of who is not", world.capture(first=victim), 0)
    check.equal("the first", world.threads()[0].id, victim.port)
    check.not_held(world, victim, SuspendError.GONE)
    check.whole(world, main)


@scenario("thread_get_state fails")
def no_state(lab: Lab) -> None:
    world, main, _ = lab.worked()
    other = world.add_thread(world.program.run("roomy", 5, at("leaf"))[0], "other")
    refused = lambda call: call.name == "thread_get_state" and call.arguments[0] & 0xFFFF_FFFF == main.port
    world.kernel.fails = refused
    check.equal("capture", world.capture(), 0)
    check.not_held(world, main, SuspendError.REFUSED)
    check.equal(
        "its holds",
        [held.calls for held in world.kernel.held if held.port == main.port],
        [["thread_suspend", "thread_get_state", "thread_resume"]],
    )
    check.whole(world, other)


@scenario("threads that libpthread has not made")
def raw_threads(lab: Lab) -> None:
    # Their names come and go with the rights that the list gives.
    world = lab.world()
    stopped = world.program.run("work", 3, in_innermost_leaf)[0]
    main = world.add_thread(stopped, "main")
    raw = world.add_thread(stopped, "raw", made_by_pthread=False)
    world.add_capturer(made_by_pthread=False)
    world.init()
    world.refresh()
    check.equal("capture", world.capture(), 0)
    check.whole(world, main)
    capture = check.whole(world, raw)
    check.equal("its name", capture.name, b"raw")


@scenario("a thread that others have suspended")
def suspended_by_others(lab: Lab) -> None:
    world, main, _ = lab.worked()
    main.suspended_by_others = 2
    main.run_state = 2
    check.equal("capture", world.capture(), 0)
    check.whole(world, main)
    check.equal("its suspensions", (main.suspend_count, main.suspended_by_others), (0, 2))
    stopped = 4
    check.equal("its state", world.thread(main).state, stopped)


@scenario("excluded and exempt threads, and one that comes first")
def excluded(lab: Lab) -> None:
    world, main, capturer = lab.worked()
    stopped = world.program.run("roomy", 5, at("leaf"))[0]
    audio, own, slow = (world.add_thread(stopped, name) for name in ("audio", "own", "slow"))
    world.exempt(audio)
    check.equal("capture", world.capture(first=slow, exclude=(own, capturer)), 0)
    check.equal("who is there", [capture.name for capture in world.threads()], [b"slow", b"main", b"audio"])
    check.not_held(world, audio, SuspendError.EXEMPT)
    check.whole(world, slow)
    check.whole(world, main)
    touched = {call.arguments[0] & 0xFFFF_FFFF for call in world.calls("thread_suspend")}
    check.equal("who was stopped", touched, {slow.port, main.port})
    world.exempt(None)
    check.equal("capture", world.capture(still=False), 0)
    check.whole(world, audio)
    check.equal("the freeze was over", [capture.moved for capture in world.threads()][:2], [True, False])


@scenario("the stack that a capture takes")
def stack_taken(lab: Lab) -> str:
    world, main, _ = lab.worked()
    for function in ("roomy", "lean", "sealed"):
        world.add_thread(world.program.run(function, 200 if function == "roomy" else 1, at("leaf"))[0], function)
    taken = world.stack_of_capture()
    check.whole(world, main)
    # As `Snapshot::capture` says: about 12 KiB.
    check.true(f"{taken} bytes of stack", 1_000 < taken <= 12 * 1024)
    return f"{taken} bytes"


@scenario("the same capture again and again")
def again(lab: Lab) -> None:
    world, main, capturer = lab.worked()
    for _ in range(5):
        before = len(world.kernel.calls)
        world.init()
        check.equal("init again", [call.name for call in world.kernel.calls[before:]], ["sysctlbyname"])
        check.equal("list", world.call("driver_list"), 2)
        check.equal("who asks", world.call("driver_current"), capturer.port)
        check.true("refresh", world.refresh())
        check.equal("capture", world.capture(), 0)
        check.whole(world, main)
        check.capturer(world, capturer)


@scenario("a session of another thread, and one that was left behind")
def sessions(lab: Lab) -> None:
    world, main, owner = lab.worked()
    check.equal("a session that is never ended", world.call("driver_forget_session"), 0)
    # It is this thread's own: nobody waits for it, and nobody is stopped.
    check.equal("capture", world.capture(), 0)
    check.not_held(world, main, SuspendError.BUSY)
    second = world.add_capturer("second")
    check.equal("capture by another thread", world.capture(), 0)
    check.not_held(world, main, SuspendError.BUSY)
    check.not_held(world, owner, SuspendError.BUSY)
    check.capturer(world, second)
    world.kernel.terminate(owner)
    check.equal("capture when the owner has ended", world.capture(), 0)
    check.whole(world, main)
