"""What the driver tells of a capture, in the words of 64 bits that its `results.rs` lays out."""

import enum
import struct
from dataclasses import dataclass


class Held(enum.IntEnum):
    """As reports count."""

    NOT = 0
    ITSELF = 3
    MACH = 4


class SuspendError(enum.IntEnum):
    """Why a thread is not held."""

    NONE = 0
    BUSY = 1
    GONE = 2
    ITSELF = 7
    OUT_OF_TIME = 8
    EXEMPT = 9
    REFUSED = 10


class Stop(enum.IntEnum):
    """Why a walk ended."""

    END_OF_STACK = 1
    NULL_RETURN_ADDRESS = 2
    MISALIGNED = 3
    NOT_ASCENDING = 4
    OUT_OF_BOUNDS = 5
    UNREADABLE = 6
    NOT_CODE = 7
    LIMIT = 8
    NO_RULE = 9


class Trust(enum.IntEnum):
    """Where a frame's address came from."""

    CONTEXT = 1
    LINK_REGISTER = 2
    CFI = 3
    COMPACT = 4
    FRAME_POINTER = 5
    SCAN = 6


@dataclass(frozen=True)
class Snapshot:
    threads: int
    dropped: int
    started_ns: int
    ended_ns: int
    pac: int

    FORMAT = "<5Q"


@dataclass(frozen=True)
class Frame:
    address: int
    returns: bool
    sp: int
    trust: Trust

    FORMAT = "<4Q"


@dataclass(frozen=True)
class ThreadCapture:
    id: int
    main: bool
    held: Held
    error: SuspendError
    held_ns: int
    has_registers: bool
    copies: int
    moved: bool
    kept: int
    omitted_after: int
    omitted: int
    stop: Stop
    stop_address: int
    repeat: tuple[int, int, int]
    state: int
    cpu_ns: int
    name: bytes
    frames: list[Frame]

    FORMAT = "<18Q64s"


@dataclass(frozen=True)
class ImageEntry:
    start: int
    end: int
    slide: int
    build_id: bytes
    path: str

    FORMAT = "<3Q16s256s"


def snapshot(data: bytes) -> Snapshot:
    return Snapshot(*struct.unpack(Snapshot.FORMAT, data))


def frames(data: bytes) -> list[Frame]:
    words = struct.iter_unpack(Frame.FORMAT, data)
    return [Frame(address, bool(returns), sp, Trust(trust)) for address, returns, sp, trust in words]


def thread(data: bytes, frames: list[Frame]) -> ThreadCapture:
    id, main, held, error, *rest, name = struct.unpack(ThreadCapture.FORMAT, data)
    held_ns, has_registers, copies, moved, kept, omitted_after, omitted, stop, stop_address, *rest = rest
    first, period, times, state, cpu_ns = rest
    return ThreadCapture(
        id=id,
        main=bool(main),
        held=Held(held),
        error=SuspendError(error),
        held_ns=held_ns,
        has_registers=bool(has_registers),
        copies=copies,
        moved=bool(moved),
        kept=kept,
        omitted_after=omitted_after,
        omitted=omitted,
        stop=Stop(stop),
        stop_address=stop_address,
        repeat=(first, period, times),
        state=state,
        cpu_ns=cpu_ns,
        name=name.rstrip(b"\0"),
        frames=frames,
    )


def image(data: bytes) -> ImageEntry:
    start, end, slide, build_id, path = struct.unpack(ImageEntry.FORMAT, data)
    return ImageEntry(start, end, slide, build_id, path.rstrip(b"\0").decode())
