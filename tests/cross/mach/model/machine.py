"""The emulated processor, with the memory that the code under test may touch directly."""

import threading
from collections.abc import Callable

import unicorn

from .architecture import Architecture
from .macho import EXECUTE, READ, WRITE, Image
from .rules import Broken, Rule

# Each imported function is an instruction that returns, and the model acts before it is executed.
TRAPS = 0x1_F000_0000
TRAPS_SIZE = 0x1_0000
TRAP_SIZE = 16


class Machine:
    """A processor, and functions of the model that code there can call."""

    def __init__(self, architecture: Architecture, address_bits: int):
        self.architecture = architecture
        self.uc = architecture.new_machine(address_bits)
        # A call that takes longer, in seconds, will never end.
        self.patience = 120.0
        self._traps: dict[int, Callable[[], int | None]] = {}
        self._failure: Exception | None = None
        self._access = ""
        self._depth = 0
        self.map(
            TRAPS,
            TRAPS_SIZE,
            READ | EXECUTE,
            architecture.return_instruction.ljust(TRAP_SIZE, b"\0") * (TRAPS_SIZE // TRAP_SIZE),
        )
        self.uc.hook_add(unicorn.UC_HOOK_CODE, self._trapped, begin=TRAPS, end=TRAPS + TRAPS_SIZE - 1)
        self.uc.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._refused)
        # Where the outermost function returns to.
        self.end = TRAPS + TRAPS_SIZE - TRAP_SIZE

    def map(self, address: int, size: int, protection: int, data: bytes = b"") -> None:
        self.uc.mem_map(address, size, _permissions(protection))
        self.uc.mem_write(address, data)

    def unmap(self, address: int, size: int) -> None:
        self.uc.mem_unmap(address, size)

    def protect(self, address: int, size: int, protection: int) -> None:
        self.uc.mem_protect(address, size, _permissions(protection))

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.uc.mem_read(address, size))

    def write(self, address: int, data: bytes) -> None:
        self.uc.mem_write(address, data)

    def load(self, image: Image) -> None:
        """Maps an image's segments; its imports are still to be bound."""
        for segment in image.segments:
            self.map(segment.address, segment.size, segment.protection, segment.data)

    def trap(self, function: Callable[[], int | None]) -> int:
        """An address that code can call, for a function of the model: it returns the result, or None for nothing."""
        address = TRAPS + len(self._traps) * TRAP_SIZE
        if address >= self.end:
            raise ValueError("more imports than there is room for")
        self._traps[address] = function
        return address

    def argument(self, number: int) -> int:
        """An argument of the function that is being called."""
        registers = self.architecture.arguments
        if number < len(registers):
            return self.uc.reg_read(registers[number])
        # Above the return address.
        place = self.sp() + 8 * (number - len(registers) + (self.architecture.lr is None))
        return int.from_bytes(self.read(place, 8), "little")

    def sp(self) -> int:
        return self.uc.reg_read(self.architecture.sp)

    def call(self, function: int, arguments: list[int], stack_top: int) -> int:
        """Calls a function with the stack below `stack_top`. Also from within a function of the model."""
        outer = self.uc.context_save() if self._depth else None
        registers = self.architecture
        for register, value in zip(registers.arguments, arguments, strict=False):
            self.uc.reg_write(register, value)
        sp = stack_top & ~15
        if registers.lr is None:
            sp -= 8
            self.write(sp, self.end.to_bytes(8, "little"))
        else:
            self.uc.reg_write(registers.lr, self.end)
        self.uc.reg_write(registers.sp, sp)
        self.uc.reg_write(registers.fp, 0)
        self._access = ""
        self._depth += 1
        # unicorn's own timeout does not bear calls within calls.
        watchdog = threading.Timer(self.patience, self.uc.emu_stop)
        watchdog.daemon = True
        if self._depth == 1:
            watchdog.start()
        try:
            self.uc.emu_start(function, self.end)
        except unicorn.UcError as error:
            if self._failure is None:
                raise self._crash(error) from None
        finally:
            self._depth -= 1
            watchdog.cancel()
        if self._failure is not None:
            raise self._failure
        if self.uc.reg_read(registers.pc) != self.end:
            raise Broken(Rule.ENDLESS, f"still at {self.uc.reg_read(registers.pc):#x}")
        result = self.uc.reg_read(registers.result)
        if outer is not None:
            self.uc.context_restore(outer)
        return result

    def _crash(self, error: unicorn.UcError) -> Broken:
        """What ended the emulation, if the model did not."""
        pc = self.uc.reg_read(self.architecture.pc)
        if not self._access:
            return Broken(Rule.PANIC, f"{error} at pc {pc:#x}")
        rule = Rule.FOREIGN_WRITE if self._access.startswith("write") else Rule.FOREIGN_ACCESS
        return Broken(rule, f"{self._access} at pc {pc:#x}")

    def _trapped(self, uc: unicorn.Uc, address: int, _size: int, _data: object) -> None:
        function = self._traps.get(address)
        if function is None:
            return
        try:
            result = function()
        except Exception as failure:  # to be raised again where the emulation was started
            self._failure = self._failure or failure
            uc.emu_stop()
            return
        if result is not None:
            uc.reg_write(self.architecture.result, result & (1 << 64) - 1)

    def _refused(self, _uc: unicorn.Uc, access: int, address: int, size: int, _value: int, _data: object) -> bool:
        kinds = {
            unicorn.UC_MEM_READ_UNMAPPED: "read",
            unicorn.UC_MEM_READ_PROT: "read",
            unicorn.UC_MEM_WRITE_UNMAPPED: "write",
            unicorn.UC_MEM_WRITE_PROT: "write",
        }
        self._access = f"{kinds.get(access, 'fetch')} of {size} bytes at {address:#x}"
        return False


def _permissions(protection: int) -> int:
    names = {READ: unicorn.UC_PROT_READ, WRITE: unicorn.UC_PROT_WRITE, EXECUTE: unicorn.UC_PROT_EXEC}
    return sum(permission for bit, permission in names.items() if protection & bit)
