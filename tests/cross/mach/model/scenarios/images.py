"""dyld's images: as its callbacks tell them, as its list has them, and while they change."""

from .. import check, macho
from ..kernel import Call
from ..macho import Image
from ..world import World
from .base import Lab, at, in_innermost_leaf, scenario

PLUGIN = 0x1_0F00_0000


def _plugin(lab: Lab, name: str = "plugin", uuid: int = 7, place: int = PLUGIN) -> Image:
    return macho.empty(f"/usr/lib/{name}.dylib", lab.architecture, place, bytes([uuid]) * 16, 0, 6)


def _known(world: World) -> dict[str, tuple[int, bytes]]:
    return {image.path: (image.start, image.build_id) for image in world.images()}


def _loaded(world: World) -> dict[str, tuple[int, bytes]]:
    images = [*world.dyld.images, world.dyld.dyld]
    return {image.path: (image.load_address, image.uuid) for image in images}


@scenario("images by callbacks: those that are there, come, go, and come again elsewhere")
def callbacks(lab: Lab) -> None:
    world, main, _ = lab.worked()
    check.equal("images", _known(world), _loaded(world))
    entry = next(image for image in world.images() if image.path == world.core.path)
    text = world.core.text
    check.true("its range", entry.start == text.address and entry.end <= text.address + text.size)
    check.equal("its slide", entry.slide, world.core.slide)
    plugin = _plugin(lab)
    world.load(plugin)
    check.equal("before a refresh", len(_known(world)), 4)
    check.true("refresh", world.refresh())
    check.equal("with the plugin", _known(world), _loaded(world))
    world.unload(plugin)
    check.true("refresh", world.refresh())
    check.equal("without it", _known(world), _loaded(world))
    # Another one at the same place, with no refresh between the two.
    world.load(plugin)
    check.true("refresh", world.refresh())
    world.unload(plugin)
    other = _plugin(lab, "other", 9)
    world.load(other)
    check.true("refresh", world.refresh())
    check.equal("the other one", _known(world), _loaded(world))
    check.true("nobody asks the loader at a refresh", all(call.name != "dladdr" for call in _since_callbacks(world)))
    check.equal("capture", world.capture(), 0)
    check.whole(world, main)


def _since_callbacks(world: World) -> list[Call]:
    last = max(call.index for call in world.calls("dladdr"))
    return world.kernel.calls[last + 1 :]


@scenario("an image that is loaded while dyld is asked to tell of images")
def loaded_between(lab: Lab) -> None:
    world = lab.world()
    world.add_capturer()
    plugin = _plugin(lab)
    world.dyld.between = lambda: world.load(plugin)
    world.init()
    check.true("refresh", world.refresh())
    check.equal("with the plugin", _known(world), _loaded(world))
    world.unload(plugin)
    check.true("refresh", world.refresh())
    check.equal("without it", _known(world), _loaded(world))


@scenario("images by dyld's list, without callbacks")
def by_list(lab: Lab) -> None:
    world = lab.world()
    world.add_capturer()
    check.true("refresh", world.refresh())
    check.equal("images", _known(world), _loaded(world))
    plugin = _plugin(lab)
    world.load(plugin)
    check.true("refresh", world.refresh())
    check.equal("with the plugin", _known(world), _loaded(world))
    world.unload(plugin)
    check.true("refresh", world.refresh())
    check.equal("without it", _known(world), _loaded(world))


@scenario("the list is null while it is read: the older table is kept")
def list_is_null(lab: Lab) -> None:
    world = lab.world()
    world.add_capturer()
    world.dyld.begin_update()
    check.true("no refresh without a list", not world.refresh())
    world.dyld.end_update()
    check.true("refresh", world.refresh())
    before = _known(world)
    world.dyld.begin_update()
    check.true("no refresh without a list", not world.refresh())
    check.equal("the older table", _known(world), before)
    # With callbacks there is no need of it.
    world.init()
    check.true("refresh by callbacks", world.refresh())
    check.equal("images", _known(world), _loaded(world))
    main = world.add_thread(world.program.run("work", 3, in_innermost_leaf)[0], "main")
    check.equal("capture", world.capture(), 0)
    check.whole(world, main)


@scenario("the list changes at each call of a refresh")
def list_changes(lab: Lab) -> str:
    clean = lab.world()
    clean.add_capturer()
    clean.refresh()
    positions = len(clean.kernel.calls)
    for position in range(positions):
        for null in (False, True):
            world = lab.world()
            world.add_capturer()
            plugin = _plugin(lab)

            def change(call: Call) -> None:
                if call.index == position:
                    world.load(plugin)
                    if null:
                        world.dyld.begin_update()
                elif null and call.index == position + 6:
                    world.dyld.end_update()

            world.kernel.watchers.append(change)
            done = world.refresh()
            world.kernel.watchers.clear()
            world.dyld.end_update()
            if done and not null:
                # What was loaded before the last look is there, and nothing else.
                without = {path: place for path, place in _loaded(world).items() if path != plugin.path}
                check.true("images", _known(world) in (_loaded(world), without))
            check.true("refresh", world.refresh())
            check.equal("images in the end", _known(world), _loaded(world))
    return f"at {positions} calls"


@scenario("another thread loads and unloads at each call of a capture")
def changes_during_capture(lab: Lab) -> str:
    positions, tried = 1, 0
    position = 0
    while position < positions:
        world, main, capturer = lab.worked()
        loader = world.add_thread(world.program.run("descend", 4, at("leaf"))[0], "loader")
        plugin, old = _plugin(lab), _plugin(lab, "old", 3, PLUGIN + 0x10_0000)
        world.load(old)
        check.true("refresh", world.refresh())
        before = len(world.kernel.calls)
        loads: list[str] = []

        def change(call: Call) -> None:
            # Whoever is held loads nothing.
            if call.index == before + position and not loader.suspend_count:
                loads.append(call.name)
                with world.on(loader):
                    world.load(plugin)
                    world.unload(old)
                    world.dyld.begin_update()

        world.kernel.watchers.append(change)
        check.equal("capture", world.capture(), 0)
        world.kernel.watchers.clear()
        positions = len(world.kernel.calls) - before
        for thread in (main, loader):
            check.whole(world, thread)
        check.capturer(world, capturer)
        if loads:
            tried += 1
            check.true("refresh without a list", world.refresh())
            check.equal("images", _known(world), _loaded(world))
        position += 1
    return f"at {tried} of {positions} calls"


@scenario("more images than there is room for")
def too_many_images(lab: Lab) -> str:
    world, main, _ = lab.worked()
    page = lab.architecture.page
    plugins = [_plugin(lab, f"plugin{n}", n % 251, 0x2_0000_0000 + n * page) for n in range(1100)]
    for plugin in plugins:
        world.load(plugin)
    world.refresh()
    known = _known(world)
    check.true("as many as there is room for", 1000 <= len(known) <= 1024)
    check.true("and none that is not", all(_loaded(world).get(path) == place for path, place in known.items()))
    check.equal("capture", world.capture(), 0)
    check.whole(world, main)
    for plugin in plugins:
        world.unload(plugin)
    check.true("refresh", world.refresh())
    check.equal("when they are gone", _known(world), _loaded(world))
    return f"{len(known)} kept"


@scenario("images with long names are read once, however many")
def long_names(lab: Lab) -> str:
    # As in a simulator of Apple's: more than half of the room for names.
    world, main, _ = lab.worked()
    page = lab.architecture.page
    for n in range(700):
        world.load(_plugin(lab, f"plugin{n:0100}", n % 251, 0x2_0000_0000 + n * page))
    check.true("refresh", world.refresh())
    check.equal("images", _known(world), _loaded(world))
    before = len(world.kernel.calls)
    check.true("refresh", world.refresh())
    calls = len(world.kernel.calls) - before
    check.true(f"{calls} calls when nothing has changed", calls <= 4)
    check.equal("images", _known(world), _loaded(world))
    check.equal("capture", world.capture(), 0)
    check.whole(world, main)
    return f"{calls} calls"
