"""Mach-O files, laid out as dyld does it."""

import functools
from dataclasses import dataclass, field
from pathlib import Path

import lief

from .architecture import ARM64, Architecture

# It reports what it does not know in files, and we say what we need.
lief.logging.disable()

READ, WRITE, EXECUTE = 1, 2, 4


@dataclass(frozen=True)
class Segment:
    """A part of an image, at its place in memory and rebased."""

    name: str
    address: int
    size: int
    protection: int
    data: bytes


@dataclass(frozen=True, eq=False)
class Image:
    """An image at a slid address. Each is itself alone, even where another one is alike."""

    path: str
    load_address: int
    slide: int
    uuid: bytes
    segments: list[Segment]
    # Where the addresses of imported symbols have to be stored, by symbol.
    imports: dict[str, list[int]] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)

    @property
    def text(self) -> Segment:
        return next(segment for segment in self.segments if segment.name == "__TEXT")

    def function_at(self, address: int) -> str:
        """The name of the function that an address lies in."""
        before = [(start, name) for name, start in self.symbols.items() if start <= address]
        return max(before)[1] if before else "?"


@functools.cache
def load(path: Path, architecture: Architecture, load_address: int) -> Image:
    """Reads a thin file, and moves it from where it was linked to `load_address`."""
    binary = lief.MachO.parse(str(path)).at(0)
    segments = [segment for segment in binary.segments if segment.name != "__PAGEZERO"]
    slide = load_address - min(segment.virtual_address for segment in segments)
    contents = {segment.name: bytearray(bytes(segment.content)) for segment in segments}
    for segment in segments:
        data = contents[segment.name]
        del data[segment.virtual_size :]
        data.extend(bytes(_pages(segment.virtual_size, architecture.page) - len(data)))
    for relocation in binary.relocations:
        if not isinstance(relocation, lief.MachO.RelocationDyld):
            raise ValueError(f"{path}: chained fixups, which zig's linker does not write and this loader does not know")
        segment = next(s for s in segments if 0 <= relocation.address - s.virtual_address < s.virtual_size)
        data, offset = contents[segment.name], relocation.address - segment.virtual_address
        target = int.from_bytes(data[offset : offset + 8], "little")
        data[offset : offset + 8] = ((target + slide) & (1 << 64) - 1).to_bytes(8, "little")
    imports: dict[str, list[int]] = {}
    for binding in binary.bindings:
        if binding.addend:
            raise ValueError(f"{path}: a binding with an addend, which the loader does not know")
        imports.setdefault(binding.symbol.name, []).append(binding.address + slide)
    return Image(
        path=f"/usr/lib/{path.name}",
        load_address=load_address,
        slide=slide,
        uuid=bytes(binary.uuid.uuid),
        segments=[
            Segment(
                segment.name,
                segment.virtual_address + slide,
                len(contents[segment.name]),
                segment.init_protection,
                bytes(contents[segment.name]),
            )
            for segment in segments
        ],
        imports=imports,
        symbols={symbol.name: symbol.value + slide for symbol in binary.exported_symbols},
    )


def empty(
    path: str, architecture: Architecture, load_address: int, uuid: bytes, size: int = 0, file_type: int = 7
) -> Image:
    """An image without functions: a header, a `__TEXT` of one page or `size` bytes, and a UUID.

    The default type is dyld's own.
    """
    size = size or architecture.page
    cpu = 0x0100_000C if architecture is ARM64 else 0x0100_0007
    word = lambda *words: b"".join(number.to_bytes(4, "little") for number in words)
    long = lambda *words: b"".join(number.to_bytes(8, "little") for number in words)
    segment = word(0x19, 72) + b"__TEXT".ljust(16, b"\0") + long(0, size, 0, size) + word(5, 5, 0, 0)
    commands = segment + word(0x1B, 24) + uuid
    header = word(0xFEED_FACF, cpu, 0, file_type, 2, len(commands), 0, 0)
    data = (header + commands).ljust(size, b"\0")
    text = Segment("__TEXT", load_address, size, READ | EXECUTE, data)
    return Image(path, load_address, load_address, uuid, [text])


def _pages(size: int, page: int) -> int:
    return (size + page - 1) // page * page
