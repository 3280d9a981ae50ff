"""The plain functions of the C library that compilers call."""

from collections.abc import Callable

import unicorn

from .machine import Machine
from .memory import AddressSpace
from .rules import Broken, Rule


class Library:
    """Functions that copy, fill and compare what the core may touch anyway."""

    def __init__(self, machine: Machine, memory: AddressSpace):
        self._machine = machine
        self._memory = memory

    def imports(self) -> dict[str, Callable[[], int | None]]:
        return {
            "_memcpy": self._copy,
            "_memmove": self._copy,
            "_memset": self._fill,
            "_bzero": self._clear,
            "___bzero": self._clear,
            "_memcmp": self._compare,
            "_bcmp": self._compare,
        }

    def _copy(self) -> int:
        to, start, size = self._arguments()
        self._write(to, self._read(start, size))
        return to

    def _fill(self) -> int:
        to, byte, size = self._arguments()
        self._write(to, bytes([byte & 0xFF]) * size)
        return to

    def _clear(self) -> None:
        to, size, _ = self._arguments()
        self._write(to, bytes(size))

    def _compare(self) -> int:
        one, other, size = self._arguments()
        first, second = self._read(one, size), self._read(other, size)
        return (first > second) - (first < second)

    def _arguments(self) -> tuple[int, int, int]:
        return tuple(self._machine.argument(number) for number in range(3))

    def _read(self, address: int, size: int) -> bytes:
        try:
            return self._machine.read(address, size) if size else b""
        except unicorn.UcError:
            raise Broken(Rule.FOREIGN_ACCESS, f"{size} bytes at {address:#x}, by the C library") from None

    def _write(self, address: int, data: bytes) -> None:
        if data and not self._memory.is_cores_own(address, len(data)):
            raise Broken(Rule.FOREIGN_WRITE, f"{len(data)} bytes at {address:#x}, by the C library")
        if data:
            self._machine.write(address, data)
