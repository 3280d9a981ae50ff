"""Reads an `.xcframework` folder as Xcode and linkers would, and says what is not as its Info.plist and the header have it.

    inspect.py MODULE.xcframework HEADER PACKAGE.swift"""

import pathlib
import plistlib
import re
import struct
import subprocess
import sys
import tempfile

PROCESSORS = {0x0100000C: "arm64", 0x01000007: "x86_64"}
# What LC_BUILD_VERSION calls a platform, and the load commands that older targets have instead.
PLATFORMS = {1: ("macos", None), 2: ("ios", None), 7: ("ios", "simulator")}
VERSION_MIN = {0x24: ("macos", None), 0x25: ("ios", None)}
LC_SYMTAB, LC_BUILD_VERSION, MH_OBJECT = 0x2, 0x32, 1
N_STAB, N_PEXT, N_TYPE, N_EXT = 0xE0, 0x10, 0x0E, 0x01


def architectures(library):
    """The archives in a file: by their processors, or under None if it is one archive."""
    magic, count = struct.unpack_from(">II", library)
    if magic != 0xCAFEBABE:
        return {None: library}
    found = {}
    for index in range(count):
        kind, _, offset, size, alignment = struct.unpack_from(">IIIII", library, 8 + 20 * index)
        assert offset % (1 << alignment) == 0 and offset + size <= len(library), "a slice lies where it cannot"
        found[PROCESSORS[kind]] = library[offset:offset + size]
    return found


def members(archive):
    """The objects of a BSD archive."""
    assert archive[:8] == b"!<arch>\n", "no archive"
    position = 8
    while position < len(archive):
        name, size = archive[position:position + 16].decode().strip(), int(archive[position + 48:position + 58])
        body, position = archive[position + 60:position + 60 + size], position + 60 + size + size % 2
        if name.startswith("#1/"):
            length = int(name[3:])
            name, body = body[:length].rstrip(b"\0").decode(), body[length:]
        if not name.startswith("__.SYMDEF"):
            yield name, body


class Object:
    """What is asked of a Mach-O object: processor, platform, oldest system, names that it exports."""

    def __init__(self, data):
        magic, kind, _, self.file_type, commands, _, _, _ = struct.unpack_from("<8I", data)
        assert magic == 0xFEEDFACF, "no Mach-O of 64 bits"
        self.processor, self.platform, self.minimum, self.exported = PROCESSORS[kind], None, 0, set()
        position = 32
        for _ in range(commands):
            command, size = struct.unpack_from("<II", data, position)
            if command == LC_BUILD_VERSION:
                platform, self.minimum = struct.unpack_from("<II", data, position + 8)
                self.platform = PLATFORMS[platform]
            elif command in VERSION_MIN:
                (self.minimum,) = struct.unpack_from("<I", data, position + 8)
                self.platform = VERSION_MIN[command]
                if self.platform[0] == "ios" and self.processor == "x86_64":
                    self.platform = ("ios", "simulator")  # no device has had one
            elif command == LC_SYMTAB:
                self.read_names(data, *struct.unpack_from("<III", data, position + 8))
            position += size

    def read_names(self, data, symbols, count, strings):
        for index in range(count):
            name, kind, _, _, _ = struct.unpack_from("<IBBHQ", data, symbols + 16 * index)
            if kind & N_EXT and kind & N_TYPE and not kind & (N_STAB | N_PEXT):
                end = data.index(b"\0", strings + name)
                self.exported.add(data[strings + name:end].decode())


def declared(header):
    """The functions that a header declares for Apple's systems."""
    command = ["clang", "-target", "arm64-apple-macos11", "-ffreestanding", "-E", "-P", str(header)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {f"_{name}" for name in re.findall(r"\b(ff_[a-z_]+) ?\(", text)}


def imports(module, headers, platform, variant, architecture):
    """What clang has against a program that imports the module."""
    target = f"{architecture}-apple-{platform}{f'-{variant}' if variant else ''}"
    command = ["clang", "-target", target, "-ffreestanding", "-fmodules", "-fsyntax-only", "-xobjective-c", f"-I{headers}", "-"]
    a_type = "ff_core" if module.endswith("Unwind") else "ff_monitor"
    with tempfile.TemporaryDirectory() as cache:
        return subprocess.run(
            [*command, f"-fmodules-cache-path={cache}"], input=f"@import {module};\n{a_type} *one;\n",
            capture_output=True, text=True).stderr


def inspect(folder, header, package):
    module, library = folder.stem, f"lib{header.stem}.a"
    with open(folder / "Info.plist", "rb") as file:
        info = plistlib.load(file)
    yield "is an xcframework", (info["CFBundlePackageType"], info["XCFrameworkFormatVersion"]) == ("XFWK", "1.0")
    available = info["AvailableLibraries"]
    identifiers = [entry["LibraryIdentifier"] for entry in available]
    yield "has a folder for each library and none besides", sorted(identifiers) == sorted(
        path.name for path in folder.iterdir() if path.is_dir())
    for entry in available:
        platform, variant = entry["SupportedPlatform"], entry.get("SupportedPlatformVariant")
        slice_name = entry["LibraryIdentifier"]
        named = "-".join(filter(None, [platform, "_".join(entry["SupportedArchitectures"]), variant]))
        yield f"{slice_name}: is named by what it is", slice_name == named and entry["LibraryPath"] == library
        headers = folder / slice_name / entry["HeadersPath"] / module
        yield f"{slice_name}: has the header", (headers / header.name).read_bytes() == header.read_bytes()
        complaints = imports(module, headers.parent, platform, variant, entry["SupportedArchitectures"][0])
        yield f"{slice_name}: its module can be imported {complaints}", not complaints
        oldest = re.search(rf"\.{platform}\(\.v(\d+)\)", package, re.IGNORECASE)
        archives = architectures((folder / slice_name / library).read_bytes())
        if None in archives:
            archives = {entry["SupportedArchitectures"][0]: archives[None]}
        yield f"{slice_name}: has the architectures that it says", sorted(archives) == sorted(entry["SupportedArchitectures"])
        for architecture, archive in archives.items():
            objects = [Object(body) for _, body in members(archive)]
            what = f"{slice_name}, {architecture}: {len(objects)} objects"
            yield f"{what} are of this processor", {(one.processor, one.file_type) for one in objects} == {(architecture, MH_OBJECT)}
            yield f"{what} are for this platform", {one.platform for one in objects} == {(platform, variant)}
            if not variant:  # on arm64 there have been simulators since iOS 14 only
                newest = max(one.minimum for one in objects) >> 16
                yield f"{what} run from {platform} {newest} on, the package from {oldest[1]}", newest <= int(oldest[1])
            exported = {name for one in objects for name in one.exported if name.startswith("_ff_")}
            differ = exported ^ declared(headers / header.name)
            yield f"{what} define the {len(exported)} functions of the header {sorted(differ)}", not differ and exported


folder, header, package = map(pathlib.Path, sys.argv[1:])
failed = 0
for name, holds in inspect(folder, header, package.read_text()):
    failed += not holds
    print("ok     " if holds else "FAILED ", f"{folder.name}: {name.removesuffix(' []').strip()}")
sys.exit(failed > 0)
