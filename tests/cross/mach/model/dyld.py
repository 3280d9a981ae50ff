"""dyld's part: which images there are, in memory as `mach-o/dyld_images.h` lays it out, and by calls to who asked."""

from collections.abc import Callable

from .macho import Image
from .memory import AddressSpace

INFOS = 0x1_B000_0000
PAGE = 0x4000
# `dyld_all_image_infos`, of version 17.
INFOS_SIZE = 0x178
_COUNT, _ARRAY, _DYLD, _TIMESTAMP, _DYLD_PATH = 4, 8, 32, 184, 192
ENTRY = 24


class Dyld:
    """The images of the task. `call` calls a function of the task's with a header's address and a slide."""

    infos_address = INFOS
    infos_size = INFOS_SIZE

    def __init__(self, memory: AddressSpace, dyld: Image):
        self._memory = memory
        self.images: list[Image] = []
        self._paths: dict[int, int] = {}
        self._timestamp = 1
        self._added: list[int] = []
        self._removed: list[int] = []
        self.call: Callable[[int, int, int], None] = lambda function, header, slide: None
        # What other threads do after a function was told of what is there, and before it is noted.
        self.between: Callable[[], None] = lambda: None
        # Three parts: the infos, the array, the paths.
        memory.add(INFOS, bytes(PAGE))
        memory.add(INFOS + PAGE, bytes(4 * PAGE))
        memory.add(INFOS + 5 * PAGE, bytes(16 * PAGE))
        self._next_path = INFOS + 5 * PAGE
        memory.add_image(dyld)
        memory.write(INFOS, (17).to_bytes(4, "little"))
        memory.write(INFOS + _DYLD, dyld.load_address.to_bytes(8, "little"))
        self.dyld = dyld
        self._write_path(dyld)
        memory.write(INFOS + _DYLD_PATH, self._paths[dyld.load_address].to_bytes(8, "little"))
        self._publish()

    def load(self, image: Image) -> None:
        """An image comes; its memory is there already."""
        self.images.append(image)
        self._write_path(image)
        self._publish()
        for function in self._added:
            self.call(function, image.load_address, image.slide)

    def unload(self, image: Image) -> None:
        """An image goes; its memory goes after that."""
        self.images.remove(image)
        self._publish()
        for function in self._removed:
            self.call(function, image.load_address, image.slide)

    def on_add(self, function: int) -> None:
        """It is told of all images that are there, and of those to come; dyld's lock is free between the two."""
        for image in list(self.images):
            self.call(function, image.load_address, image.slide)
        self.between()
        self._added.append(function)

    def on_remove(self, function: int) -> None:
        self._removed.append(function)

    def begin_update(self) -> None:
        """While dyld changes the array, there is none."""
        self._memory.write(INFOS + _ARRAY, bytes(8))

    def end_update(self) -> None:
        self._publish()

    def place_of(self, address: int) -> tuple[int, int] | None:
        """The load address of the image that an address lies in, and the address of its path."""
        for image in self.images:
            if any(segment.address <= address < segment.address + segment.size for segment in image.segments):
                return image.load_address, self._paths[image.load_address]
        return None

    def _write_path(self, image: Image) -> None:
        self._paths[image.load_address] = self._next_path
        self._memory.write(self._next_path, image.path.encode() + b"\0")
        self._next_path += len(image.path) + 1

    def _publish(self) -> None:
        entries = b"".join(
            image.load_address.to_bytes(8, "little") + self._paths[image.load_address].to_bytes(8, "little") + bytes(8)
            for image in self.images
        )
        self._memory.write(INFOS + PAGE, entries)
        self._memory.write(INFOS + _COUNT, len(self.images).to_bytes(4, "little"))
        self._memory.write(INFOS + _ARRAY, (INFOS + PAGE).to_bytes(8, "little"))
        self._timestamp += 1
        self._memory.write(INFOS + _TIMESTAMP, self._timestamp.to_bytes(8, "little"))
