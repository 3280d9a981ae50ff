"""Captures with mistakes, which the model has to catch."""

from .. import check
from ..rules import Broken, Rule
from ..world import World
from .base import Lab, at, in_innermost_leaf, scenario

# By the numbers of the driver's mischief.rs.
MISTAKES = {
    1: Rule.RIGHT_LEAKED,
    2: Rule.ALLOCATION_LEAKED,
    3: Rule.HELD_CALL,
    4: Rule.RESUMED_TOO_OFTEN,
    5: Rule.HELD_CALL,
    6: Rule.HELD_CALL,
    7: Rule.HELD_CALL,
    8: Rule.HELD_CALL,
    9: Rule.OWN_THREAD,
    10: Rule.OWN_THREAD,
    11: Rule.RUNNING_THREAD,
    12: Rule.FOREIGN_ACCESS,
    13: Rule.FOREIGN_WRITE,
    14: Rule.RUNNING_THREAD,
    15: Rule.NO_RIGHT,
    16: Rule.NO_ALLOCATION,
    17: Rule.PANIC,
    18: Rule.FOREIGN_WRITE,
    19: Rule.HELD_CALL,
    20: Rule.FOREIGN_WRITE,
    21: Rule.STILL_HELD,
}
FORGETS_RESUME_ON_ERROR = 19


def _world(lab: Lab, **options: object) -> World:
    world = lab.world(**options)
    world.add_thread(world.program.run("work", 3, in_innermost_leaf)[0], "main")
    world.add_thread(world.program.run("descend", 3, at("leaf"))[0], "raw", made_by_pthread=False)
    world.add_capturer()
    return world


def caught(what: str, rule: Rule, run) -> None:
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
    for mistake, rule in MISTAKES.items():
        world = _world(lab, mischief=True)
        if mistake == FORGETS_RESUME_ON_ERROR:
            check.equal("without an error it is none", world.call("mischief_capture", mistake), 2)
            world.kernel.fails = lambda call: call.name == "thread_get_state"
        caught(f"mistake {mistake}", rule, lambda: world.call("mischief_capture", mistake))
    return f"{len(MISTAKES)} mistakes"


@scenario("an import that the model does not know is caught")
def unknown_imports(lab: Lab) -> str:
    imports = [name for name in _world(lab).core.imports if name != "_mach_task_self_"]
    for name in imports:
        caught(name, Rule.UNKNOWN_IMPORT, lambda: _world(lab, unknown=(name,)))
    return f"{len(imports)} imports"


@scenario("a wrong frame is caught")
def wrong_frames(lab: Lab) -> None:
    def noticed(change) -> None:
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
