"""How scenarios are written down and found."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

from ..architecture import ARCHITECTURES, Architecture
from ..program import Place
from ..threads import Thread
from ..world import Files, World


@dataclass(frozen=True)
class Lab:
    """Where a scenario gets its worlds from."""

    architecture: Architecture
    files: Files

    def world(self, **options: object) -> World:
        return World(self.architecture, self.files, **options)

    def worked(self, **options: object) -> tuple[World, Thread, Thread]:
        """The usual world: a main thread in the midst of work, and the capturer; the core is set up."""
        world = self.world(**options)
        main = world.add_thread(world.program.run("work", 3, in_innermost_leaf)[0], "main")
        capturer = world.add_capturer()
        world.init()
        if not world.refresh():
            raise AssertionError("the images cannot be refreshed")
        return world, main, capturer


@dataclass(frozen=True)
class Scenario:
    """A function that raises if something is not as it should be, and may return a word on what was seen."""

    name: str
    run: Callable[[Lab], str | None]
    architectures: tuple[Architecture, ...]


SCENARIOS: list[Scenario] = []


def scenario(name: str, *architectures: Architecture) -> Callable:
    """Registers a scenario, for both architectures unless some are named."""

    def register(run: Callable[[Lab], str | None]) -> Callable[[Lab], str | None]:
        SCENARIOS.append(Scenario(name, run, architectures or ARCHITECTURES))
        return run

    return register


def in_innermost_leaf(function: str, offset: int, calls: list[Place]) -> bool:
    """Where `work` has come furthest down."""
    return function == "leaf" and offset == 0 and len(calls) == 6


@functools.cache
def at(function: str) -> Callable[[str, int, list[Place]], bool]:
    """At each beginning of a function."""
    return lambda name, offset, calls: name == function and offset == 0
