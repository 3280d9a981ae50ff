"""The calls that the core may make, what they do, and what is checked of them.

A call of a kernel is counted, can be watched, and can be made to fail. Plain helpers of the C library are neither.
"""

import enum
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

from .dyld import Dyld
from .machine import Machine
from .memory import KERN_INVALID_ADDRESS, AddressSpace, Unreadable
from .rules import Broken, Rule
from .threads import PortSpace, Thread

KERN_SUCCESS = 0
KERN_INVALID_ARGUMENT = 4
KERN_FAILURE = 5
KERN_TERMINATED = 37
MACH_SEND_INVALID_DEST = 0x1000_0003

TASK = 0x203
CLOCK_UPTIME_RAW = 8
ALLOCATIONS = 0x1_8000_0000

# What a call takes, and what a reading of the clock takes.
CALL_NS = 700
CLOCK_NS = 41


class Flavor(enum.IntEnum):
    """What can be asked of a thread, the task and its memory."""

    THREAD_BASIC_INFO = 3
    THREAD_EXTENDED_INFO = 5
    VM_REGION_BASIC_INFO_64 = 9
    TASK_DYLD_INFO = 17


@dataclass(frozen=True)
class Call:
    """One call of the kernel."""

    index: int
    name: str
    arguments: tuple[int, ...]


@dataclass
class Held:
    """How one thread was held, from its suspension to its resumption."""

    port: int
    since_ns: int
    until_ns: int = 0
    calls: list[str] = field(default_factory=list)


def _call(*, while_held: bool = False, can_fail: bool = True):
    """Marks a method as a call of the kernel: may it be made while a thread is held, and can it fail?"""

    def mark(method):
        method.while_held, method.can_fail = while_held, can_fail
        return method

    return mark


class Kernel:
    """The modelled task, and the calls on it."""

    def __init__(self, machine: Machine, memory: AddressSpace, dyld: Dyld, address_bits: int):
        self.machine = machine
        self.memory = memory
        self.dyld = dyld
        self.address_bits = address_bits
        self.ports = PortSpace()
        self.threads: list[Thread] = []
        # Who captures; who executes the core's code at the moment, and on which stack.
        self.capturer: Thread | None = None
        self.current: Thread | None = None
        self.stack: range = range(0)
        self.now_ns = 5_000_000_000
        self.calls: list[Call] = []
        self.held: list[Held] = []
        # Called before each call.
        self.watchers: list[Callable[[Call], None]] = []
        # Whether a call fails.
        self.fails: Callable[[Call], bool] = lambda call: False
        self._allocations: dict[int, int] = {}
        self._next_allocation = ALLOCATIONS

    # What a scenario does.

    def new_thread(self, **fields: object) -> Thread:
        thread = Thread(port=self.ports.new_name(), **fields)
        self.ports.add(thread)
        self.threads.append(thread)
        return thread

    def terminate(self, thread: Thread) -> None:
        """A thread ends, also while it is suspended."""
        self.ports.terminate(thread)
        thread.suspend_count = 0
        self._released(thread.port)
        self.threads.remove(thread)

    def check_quiet(self) -> None:
        """What must be true whenever the core returns."""
        for thread in self.threads:
            if thread.suspend_count:
                raise Broken(Rule.STILL_HELD, f"thread {thread.port:#x} has the count {thread.suspend_count}")
        self.ports.check_released()
        if self._allocations:
            raise Broken(Rule.ALLOCATION_LEAKED, ", ".join(f"{start:#x}" for start in self._allocations))

    # How the core gets here.

    def imports(self) -> dict[str, Callable[[], int | None]]:
        """The functions that the model knows, by symbol."""
        calls = {}
        for name, method in inspect.getmembers(self, inspect.ismethod):
            if hasattr(method, "while_held"):
                calls[f"_{name}"] = lambda name=name, method=method: self._enter(name, method)
        return calls

    def _enter(self, name: str, method: Callable[..., int | None]) -> int | None:
        # Without `self`.
        count = method.__code__.co_argcount - 1
        arguments = tuple(self.machine.argument(number) for number in range(count))
        call = Call(len(self.calls), name, arguments)
        self.calls.append(call)
        if self.machine.sp() not in self.stack:
            raise Broken(Rule.STACK, f"{self.machine.sp():#x} in a call of {name}")
        holds = [held for held in self.held if not held.until_ns and self.current is self.capturer]
        if holds and not method.while_held:
            raise Broken(Rule.HELD_CALL, name)
        for held in holds:
            held.calls.append(name)
        self.now_ns += CALL_NS
        for watcher in self.watchers:
            watcher(call)
        if method.can_fail and self.fails(call):
            return self._fail(call)
        return method(*arguments)

    def _fail(self, call: Call) -> int:
        """A failure that the core is not to blame for."""
        match call.name:
            case "mach_thread_self" | "clock_gettime_nsec_np" | "dladdr":
                return 0
            case "sysctlbyname":
                return -1
            case "thread_resume":
                # It only fails if there is nothing left to be resumed.
                self.terminate(self._thread(call.arguments[0]))
                return KERN_TERMINATED
            # They were called: more the core cannot do.
            case "mach_port_deallocate":
                self.ports.release(_word(call.arguments[1]))
            case "vm_deallocate":
                self._free(*call.arguments[1:])
        return KERN_FAILURE

    # Threads.

    @_call()
    def mach_thread_self(self) -> int:
        return self.ports.give(self.current)

    @_call()
    def task_threads(self, task: int, threads: int, count: int) -> int:
        self._check_task(task)
        names = [self.ports.give(thread) for thread in self.threads]
        address = self._allocate(b"".join(name.to_bytes(4, "little") for name in names))
        self._store(threads, address, 8)
        self._store(count, len(names), 4)
        return KERN_SUCCESS

    @_call(while_held=True)
    def thread_suspend(self, port: int) -> int:
        thread = self._thread(port)
        if thread is self.current:
            raise Broken(Rule.OWN_THREAD, "it suspends itself")
        if not thread.alive:
            return MACH_SEND_INVALID_DEST
        thread.suspend_count += 1
        if thread.suspend_count == 1:
            self.held.append(Held(thread.port, self.now_ns, calls=["thread_suspend"]))
        return KERN_SUCCESS

    @_call(while_held=True)
    def thread_resume(self, port: int) -> int:
        thread = self._thread(port)
        if not thread.alive:
            return MACH_SEND_INVALID_DEST
        if not thread.suspend_count:
            raise Broken(Rule.RESUMED_TOO_OFTEN, f"thread {_word(port):#x}")
        thread.suspend_count -= 1
        if not thread.suspend_count:
            self._released(port)
        return KERN_SUCCESS

    @_call(while_held=True)
    def thread_get_state(self, port: int, flavor: int, state: int, count: int) -> int:
        thread = self._thread(port)
        if thread is self.current:
            raise Broken(Rule.OWN_THREAD, "it asks for its own registers")
        if not thread.alive:
            return MACH_SEND_INVALID_DEST
        if not thread.suspend_count:
            raise Broken(Rule.RUNNING_THREAD, f"registers of {thread.port:#x}")
        architecture = self.machine.architecture
        if _word(flavor) != architecture.state_flavor:
            raise Broken(Rule.UNKNOWN_REQUEST, f"thread state of flavour {flavor}")
        words = b"".join(word.to_bytes(8, "little") for word in thread.state)
        return self._store_counted(state, count, words.ljust(4 * architecture.state_count, b"\0"))

    @_call()
    def thread_info(self, port: int, flavor: int, info: int, count: int) -> int:
        thread = self._thread(port)
        if not thread.alive:
            return MACH_SEND_INVALID_DEST
        ints = lambda *numbers: b"".join(number.to_bytes(4, "little", signed=True) for number in numbers)
        match _word(flavor):
            case Flavor.THREAD_BASIC_INFO:
                times = [*divmod(thread.user_us, 1_000_000), *divmod(thread.system_us, 1_000_000)]
                suspended = thread.suspend_count + thread.suspended_by_others
                words = ints(*times, 0, 1, thread.run_state, 0, suspended, 0)
            case Flavor.THREAD_EXTENDED_INFO:
                # In nanoseconds, here.
                times = (thread.user_us * 1000).to_bytes(8, "little") + (thread.system_us * 1000).to_bytes(8, "little")
                words = times + ints(0, 1, thread.run_state, 0, 0, 31, 31, 63) + thread.name.ljust(64, b"\0")
            case other:
                raise Broken(Rule.UNKNOWN_REQUEST, f"thread_info of flavour {other}")
        return self._store_counted(info, count, words)

    # Memory.

    @_call(while_held=True)
    def vm_read_overwrite(self, task: int, address: int, size: int, data: int, copied: int) -> int:
        self._check_task(task)
        for port in self.memory.stacks_in(address, size):
            thread = next((thread for thread in self.threads if thread.port == port), None)
            if thread is not None and thread is not self.current and not thread.suspend_count:
                raise Broken(Rule.RUNNING_THREAD, f"stack of {port:#x}")
        if address + size > 1 << 64:
            return KERN_INVALID_ADDRESS
        try:
            content = self.memory.read(address, size)
        except Unreadable as unreadable:
            return unreadable.code
        self._store_bytes(data, content)
        self._store(copied, size, 8)
        return KERN_SUCCESS

    @_call(while_held=True)
    def vm_region_64(
        self, task: int, address: int, size: int, flavor: int, info: int, count: int, object_name: int
    ) -> int:
        self._check_task(task)
        if _word(flavor) != Flavor.VM_REGION_BASIC_INFO_64:
            raise Broken(Rule.UNKNOWN_REQUEST, f"vm_region_64 of flavour {flavor}")
        region = self.memory.at_or_above(self._load(address, 8))
        if region is None:
            return KERN_INVALID_ADDRESS
        # Protections, inheritance, shared, reserved, offset, behaviour, wired count.
        word = lambda number: number.to_bytes(4, "little")
        words = word(region.protection) + word(7) + word(1) + word(0) + word(0) + bytes(8) + word(0) + word(0)
        result = self._store_counted(info, count, words)
        if result == KERN_SUCCESS:
            self._store(address, region.start, 8)
            self._store(size, region.size, 8)
            self._store(object_name, 0, 4)
        return result

    @_call()
    def vm_deallocate(self, task: int, address: int, size: int) -> int:
        self._check_task(task)
        self._free(address, size)
        return KERN_SUCCESS

    @_call()
    def mach_port_deallocate(self, task: int, name: int) -> int:
        self._check_task(task)
        self.ports.release(_word(name))
        return KERN_SUCCESS

    # The task, the system and the loader.

    @_call()
    def task_info(self, task: int, flavor: int, info: int, count: int) -> int:
        self._check_task(task)
        if _word(flavor) != Flavor.TASK_DYLD_INFO:
            raise Broken(Rule.UNKNOWN_REQUEST, f"task_info of flavour {flavor}")
        words = self.dyld.infos_address.to_bytes(8, "little") + self.dyld.infos_size.to_bytes(8, "little")
        return self._store_counted(info, count, words + (1).to_bytes(4, "little"))

    @_call(while_held=True)
    def clock_gettime_nsec_np(self, clock: int) -> int:
        if _word(clock) != CLOCK_UPTIME_RAW:
            raise Broken(Rule.UNKNOWN_REQUEST, f"clock {clock}")
        self.now_ns += CLOCK_NS - CALL_NS
        return self.now_ns

    @_call(can_fail=False)
    def getpid(self) -> int:
        return 4711

    @_call()
    def sysctlbyname(self, name: int, old: int, old_size: int, new: int, new_size: int) -> int:
        if self._string(name) != b"machdep.virtual_address_size" or new or new_size:
            raise Broken(Rule.UNKNOWN_REQUEST, f"sysctlbyname of {self._string(name)!r}")
        # Intel's kernels do not have it.
        if self.machine.architecture.lr is None or self._load(old_size, 8) < 4:
            return -1
        self._store(old, self.address_bits, 4)
        self._store(old_size, 4, 8)
        return 0

    @_call(can_fail=False)
    def _dyld_register_func_for_add_image(self, callback: int) -> None:
        self.dyld.on_add(callback)

    @_call(can_fail=False)
    def _dyld_register_func_for_remove_image(self, callback: int) -> None:
        self.dyld.on_remove(callback)

    @_call()
    def dladdr(self, address: int, answer: int) -> int:
        place = self.dyld.place_of(address)
        if place is None:
            return 0
        load_address, path = place
        self._store_bytes(answer, b"".join(n.to_bytes(8, "little") for n in (path, load_address, 0, 0)))
        return 1

    @_call(can_fail=False)
    def abort(self) -> None:
        raise Broken(Rule.PANIC, "abort was called")

    # What the calls have in common.

    def _check_task(self, task: int) -> None:
        if _word(task) != TASK:
            raise Broken(Rule.NO_RIGHT, f"{task:#x} is not the task")

    def _thread(self, port: int) -> Thread:
        return self.ports.thread(_word(port))

    def _released(self, port: int) -> None:
        for held in self.held:
            if held.port == _word(port) and not held.until_ns:
                held.until_ns = self.now_ns

    def _allocate(self, data: bytes) -> int:
        page = self.machine.architecture.page
        size = (len(data) + page - 1) // page * page
        address, self._next_allocation = self._next_allocation, self._next_allocation + size + page
        self.machine.map(address, size, 3, data)
        self.memory.add_machine(address, size)
        self._allocations[address] = size
        return address

    def _free(self, address: int, size: int) -> None:
        page = self.machine.architecture.page
        if self._allocations.get(address) != (size + page - 1) // page * page:
            raise Broken(Rule.NO_ALLOCATION, f"{size} bytes at {address:#x}")
        del self._allocations[address]
        self.memory.remove(address)
        self.machine.unmap(address, (size + page - 1) // page * page)

    def _load(self, address: int, size: int) -> int:
        return int.from_bytes(self.machine.read(address, size), "little")

    def _string(self, address: int) -> bytes:
        return self.machine.read(address, 64).split(b"\0")[0]

    def _store(self, address: int, value: int, size: int) -> None:
        self._store_bytes(address, value.to_bytes(size, "little"))

    def _store_counted(self, address: int, count: int, words: bytes) -> int:
        """Stores words of 32 bits, of which the caller has said how many it has room for."""
        room = self._load(count, 4)
        if 4 * room < len(words):
            return KERN_INVALID_ARGUMENT
        self._store_bytes(address, words)
        self._store(count, len(words) // 4, 4)
        return KERN_SUCCESS

    def _store_bytes(self, address: int, data: bytes) -> None:
        if data and not self.memory.is_cores_own(address, len(data)):
            raise Broken(Rule.FOREIGN_WRITE, f"{len(data)} bytes at {address:#x}, by the kernel")
        self.machine.write(address, data)


def _word(register: int) -> int:
    """An argument of 32 bits: a port's name, a flavour. What the register holds above is not defined."""
    return register & 0xFFFF_FFFF
