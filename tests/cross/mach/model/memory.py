"""The address space of the modelled task, as the kernel sees it."""

from dataclasses import dataclass

from .machine import Machine
from .macho import READ, WRITE, Image

KERN_INVALID_ADDRESS = 1
KERN_PROTECTION_FAILURE = 2


class Unreadable(Exception):
    """A range that the kernel does not copy, with the code that it returns."""

    def __init__(self, code: int):
        super().__init__(code)
        self.code = code


@dataclass
class Region:
    """Memory from one address on with one protection."""

    start: int
    protection: int
    # None: the memory is the machine's, so that the core can touch it.
    data: bytearray | None
    size: int
    # Whose stack it is: a thread's port; zero: no stack.
    stack_of: int = 0

    @property
    def end(self) -> int:
        return self.start + self.size


class AddressSpace:
    """All regions of the task. Between them are holes."""

    def __init__(self, machine: Machine):
        self._machine = machine
        self.regions: list[Region] = []

    def add(self, start: int, data: bytes, protection: int = READ | WRITE, stack_of: int = 0) -> Region:
        """Memory that only the kernel can reach."""
        return self._insert(Region(start, protection, bytearray(data), len(data), stack_of))

    def add_machine(self, start: int, size: int, protection: int = READ | WRITE) -> Region:
        """Memory that the core can touch; it is mapped in the machine already."""
        return self._insert(Region(start, protection, None, size))

    def add_image(self, image: Image) -> None:
        """An image that the core has no business with."""
        for segment in image.segments:
            self.add(segment.address, segment.data, segment.protection)

    def remove(self, start: int) -> None:
        self.regions.remove(self._at(start))

    def split(self, start: int, size: int) -> Region:
        """Makes a part of a region, which only the kernel reaches, a region of its own."""
        whole = self._at(start)
        assert whole is not None and whole.data is not None and start + size <= whole.end
        self.regions.remove(whole)
        for low, high in [(whole.start, start), (start, start + size), (start + size, whole.end)]:
            if low < high:
                data = whole.data[low - whole.start : high - whole.start]
                self._insert(Region(low, whole.protection, data, high - low, whole.stack_of))
        return self._at(start)

    def read(self, address: int, size: int) -> bytes:
        """All of a range, or nothing: as vm_read_overwrite does it."""
        parts = []
        for region, start, end in self._parts(address, size):
            if not region.protection & READ:
                raise Unreadable(KERN_PROTECTION_FAILURE)
            if region.data is None:
                parts.append(self._machine.read(start, end - start))
            else:
                parts.append(bytes(region.data[start - region.start : end - region.start]))
        return b"".join(parts)

    def write(self, address: int, data: bytes) -> None:
        """Changes memory behind the core's back."""
        for region, start, end in self._parts(address, len(data)):
            part = data[start - address : end - address]
            if region.data is None:
                self._machine.write(start, part)
            else:
                region.data[start - region.start : end - region.start] = part

    def stacks_in(self, address: int, size: int) -> set[int]:
        """The threads whose stacks a range touches."""
        touched = (r for r in self.regions if r.start < address + size and address < r.end)
        return {region.stack_of for region in touched if region.stack_of}

    def is_cores_own(self, address: int, size: int) -> bool:
        """Whether the core may have something stored at a place."""
        try:
            parts = self._parts(address, size)
        except Unreadable:
            return False
        return all(region.data is None and region.protection == READ | WRITE for region, _, _ in parts)

    def at_or_above(self, address: int) -> Region | None:
        """The region that an address lies in, or the next one above."""
        return next((region for region in self.regions if address < region.end), None)

    def _parts(self, address: int, size: int) -> list[tuple[Region, int, int]]:
        parts, at = [], address
        while at < address + size:
            region = self._at(at)
            if region is None:
                raise Unreadable(KERN_INVALID_ADDRESS)
            end = min(region.end, address + size)
            parts.append((region, at, end))
            at = end
        return parts

    def _at(self, address: int) -> Region | None:
        return next((region for region in self.regions if region.start <= address < region.end), None)

    def _insert(self, region: Region) -> Region:
        assert not any(r.start < region.end and region.start < r.end for r in self.regions), "regions overlap"
        self.regions.append(region)
        self.regions.sort(key=lambda r: r.start)
        return region
