"""The threads of the modelled task, and the rights to their ports."""

from dataclasses import dataclass, field

from .rules import Broken, Rule

# mach/thread_info.h
RUNNING, STOPPED, WAITING, UNINTERRUPTIBLE = 1, 2, 3, 4


@dataclass
class Thread:
    """A thread that stands somewhere."""

    # Its name in the task's port name space.
    port: int
    name: bytes = b""
    # The register file, in the words of its flavour.
    state: list[int] = field(default_factory=list)
    user_us: int = 0
    system_us: int = 0
    run_state: int = WAITING
    alive: bool = True
    # By the core. A thread that others have suspended counts from there.
    suspend_count: int = 0
    suspended_by_others: int = 0
    # libpthread keeps a right to the threads that it has made: their names in the name space do not change.
    made_by_pthread: bool = True


@dataclass
class _Right:
    thread: Thread
    count: int


class PortSpace:
    """The send rights of the task to its threads, counted by name."""

    def __init__(self) -> None:
        self._rights: dict[int, _Right] = {}
        self._next = 0x103

    def new_name(self) -> int:
        """A name that was not used before."""
        self._next += 0x100
        return self._next

    def add(self, thread: Thread) -> None:
        """Of a new thread, libpthread's right."""
        self._rights[thread.port] = _Right(thread, int(thread.made_by_pthread))

    def give(self, thread: Thread) -> int:
        """One more right to a thread: returns its name."""
        self._rights[thread.port].count += 1
        return thread.port

    def release(self, name: int) -> None:
        """One right less. The last one takes the name with it."""
        right = self._rights.get(name)
        if right is None or right.count == 0:
            raise Broken(Rule.NO_RIGHT, f"port {name:#x} is released once too often")
        right.count -= 1

    def thread(self, name: int) -> Thread:
        """The thread that a name stands for, or stood for until it ended: that any call may find out."""
        right = self._rights.get(name)
        if right is None or right.count == 0 and right.thread.alive:
            raise Broken(Rule.NO_RIGHT, f"port {name:#x} is used without a right to it")
        return right.thread

    def terminate(self, thread: Thread) -> None:
        """libpthread's right goes with the thread; all others become rights to a dead name."""
        if thread.alive and thread.made_by_pthread:
            self._rights[thread.port].count -= 1
        thread.alive = False

    def check_released(self) -> None:
        """Whether no right is left but libpthread's."""
        for name, right in self._rights.items():
            expected = int(right.thread.alive and right.thread.made_by_pthread)
            if right.count != expected:
                raise Broken(Rule.RIGHT_LEAKED, f"port {name:#x} has {right.count - expected} rights more than before")
