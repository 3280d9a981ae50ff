"""Captures with mistakes, which the model has to catch."""

import enum
from collections.abc import Callable

from .. import check
from ..rules import Broken, Rule
from ..threads import Thread
from ..world import World
from .base import Lab, at, in_innermost_leaf, scenario


class Mistake(enum.IntEnum):
    """By the numbers of the driver's mischief.rs."""

    KEEPS_RIGHT = 1
    KEEPS_ARRAY = 2
    DOES_NOT_RESUME = 3
    RESUMES_TWICE = 4
    RELEASES_RIGHT_WHILE_HELD = 5
    FREES_ARRAY_WHILE_HELD = 6
    ASKS_LOADER_WHILE_HELD = 7
    ASKS_FOR_FACTS_WHILE_HELD = 8
    SUSPENDS_ITSELF = 9
    READS_ITSELF = 10
    READS_RUNNING_THREAD = 11
    READS_STACK_DIRECTLY = 12
    COPIES_INTO_FOREIGN_MEMORY = 13
    COPIES_STACK_OF_RUNNING_THREAD = 14
    USES_RELEASED_RIGHT = 15
    FREES_TWICE = 16
    PANICS = 17
    OVERFLOWS_STACK = 18
    FORGETS_RESUME_ON_ERROR = 19
    WRITES_CODE = 20
    LEAVES_ONE_HELD = 21
    CALLS_ON_ANOTHER_STACK = 22
    NEVER_ENDS = 23
    ASKS_FOR_UNKNOWN_FACTS = 24
    TRAPS = 25


CAUGHT_BY = {
    Mistake.KEEPS_RIGHT: Rule.RIGHT_LEAKED,
    Mistake.KEEPS_ARRAY: Rule.ALLOCATION_LEAKED,
    # The next call that is not allowed, before the end is reached.
    Mistake.DOES_NOT_RESUME: Rule.HELD_CALL,
    Mistake.RESUMES_TWICE: Rule.RESUMED_TOO_OFTEN,
    Mistake.RELEASES_RIGHT_WHILE_HELD: Rule.HELD_CALL,
    Mistake.FREES_ARRAY_WHILE_HELD: Rule.HELD_CALL,
    Mistake.ASKS_LOADER_WHILE_HELD: Rule.HELD_CALL,
    Mistake.ASKS_FOR_FACTS_WHILE_HELD: Rule.HELD_CALL,
    Mistake.SUSPENDS_ITSELF: Rule.OWN_THREAD,
    Mistake.READS_ITSELF: Rule.OWN_THREAD,
    Mistake.READS_RUNNING_THREAD: Rule.RUNNING_THREAD,
    Mistake.READS_STACK_DIRECTLY: Rule.FOREIGN_ACCESS,
    Mistake.COPIES_INTO_FOREIGN_MEMORY: Rule.FOREIGN_WRITE,
    Mistake.COPIES_STACK_OF_RUNNING_THREAD: Rule.RUNNING_THREAD,
    Mistake.USES_RELEASED_RIGHT: Rule.NO_RIGHT,
    Mistake.FREES_TWICE: Rule.NO_ALLOCATION,
    Mistake.PANICS: Rule.PANIC,
    Mistake.OVERFLOWS_STACK: Rule.FOREIGN_WRITE,
    Mistake.FORGETS_RESUME_ON_ERROR: Rule.HELD_CALL,
    Mistake.WRITES_CODE: Rule.FOREIGN_WRITE,
    Mistake.LEAVES_ONE_HELD: Rule.STILL_HELD,
    Mistake.CALLS_ON_ANOTHER_STACK: Rule.STACK,
    Mistake.NEVER_ENDS: Rule.ENDLESS,
    Mistake.ASKS_FOR_UNKNOWN_FACTS: Rule.UNKNOWN_REQUEST,
    Mistake.TRAPS: Rule.PANIC,
}


def _world(lab: Lab, **options: object) -> World:
    world = lab.world(**options)
    world.add_thread(world.program.run("work", 3, in_innermost_leaf)[0], "main")
    world.add_thread(world.program.run("descend", 3, at("leaf"))[0], "raw", made_by_pthread=False)
    world.add_capturer()
    return world


def caught(what: str, rule: Rule, run: Callable[[], object]) -> None:
    """What was done has to be found out, and for what it is."""
    try:
        run()
    except Broken as broken:
        check.equal(f"what {what} breaks", broken.rule.name, rule.name)
        return
    raise check.Wrong(f"{what} is not noticed")


@scenario("broken captures are caught")
def mistakes(lab: Lab) -> str:
    world = _world(lab, mischief=True)
    check.equal("threads captured without a mistake", world.call("mischief_capture", 0), 2)
    check.equal("every mistake is tried", set(CAUGHT_BY), set(Mistake))
    check.equal("every rule is broken", set(CAUGHT_BY.values()) | {Rule.UNKNOWN_IMPORT}, set(Rule))
    for mistake, rule in CAUGHT_BY.items():
        world = _world(lab, mischief=True)
        if mistake is Mistake.NEVER_ENDS:
            world.machine.patience = 0.5
        if mistake is Mistake.FORGETS_RESUME_ON_ERROR:
            check.equal("without an error it is none", world.call("mischief_capture", mistake), 2)
            world.kernel.fails = lambda call: call.name == "thread_get_state"
        caught(mistake.name.lower(), rule, lambda: world.call("mischief_capture", mistake))
    return f"{len(CAUGHT_BY)} mistakes"


@scenario("an import that the model does not know is caught")
def unknown_imports(lab: Lab) -> str:
    imports = [name for name in _world(lab).core.imports if name != "_mach_task_self_"]
    # Only a panic calls it: nothing of the core is left that could.
    check.true("the core has no panic", "_abort" not in imports)
    check.true("the captures with mistakes have one", "_abort" in _world(lab, mischief=True).core.imports)
    for name in imports:
        caught(name, Rule.UNKNOWN_IMPORT, lambda: _world(lab, unknown=(name,)))
    return f"{len(imports)} imports"


@scenario("a wrong frame is caught")
def wrong_frames(lab: Lab) -> None:
    def noticed(change: Callable[[World, Thread], object]) -> None:
        world, main, _ = lab.worked()
        change(world, main)
        world.capture()
        try:
            check.whole(world, main)
        except check.Wrong:
            return
        raise check.Wrong("a wrong frame is not noticed")

    # Another function's return address, and one frame too few.
    descend = lambda world: world.program.function("descend")
    place = lambda world, main: world.calls_of(main)[3].sp - 8
    noticed(lambda world, main: world.memory.write(place(world, main), (descend(world) + 4).to_bytes(8, "little")))
    noticed(lambda world, main: world.memory.write(place(world, main) - 8, bytes(8)))
    noticed(lambda world, main: world.calls_of(main).pop(2))
