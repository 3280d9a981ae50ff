"""Makes an `.xcframework` folder of static libraries and their header.

    assemble.py MODULE.xcframework HEADER PLATFORM[-VARIANT]:ARCHIVE[:ARCHIVE]...

The archives of one platform, each of one architecture, become one fat file."""

import pathlib
import plistlib
import shutil
import struct
import sys

FAT_MAGIC = 0xCAFEBABE
MACHO_MAGIC = struct.pack("<I", 0xFEEDFACF)
# The name, then the type and subtype of a processor.
ARCHITECTURES = {0x0100000C: ("arm64", 0), 0x01000007: ("x86_64", 3)}
ALIGNMENT = 14


def processor(archive):
    """The processor of the first object in an archive."""
    (kind,) = struct.unpack_from("<I", archive, archive.index(MACHO_MAGIC) + 4)
    return kind


def fat(archives):
    """Several archives in one file: a header, an entry for each, then they, aligned."""
    header = struct.pack(">II", FAT_MAGIC, len(archives))
    offset, entries, body = 1 << ALIGNMENT, b"", b""
    for archive in archives:
        kind = processor(archive)
        entries += struct.pack(">IIIII", kind, ARCHITECTURES[kind][1], offset + len(body), len(archive), ALIGNMENT)
        body += archive + bytes(-len(archive) % (1 << ALIGNMENT))
    return (header + entries).ljust(offset, b"\0") + body


def main():
    folder, header = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    module, library = folder.stem, f"lib{header.stem}.a"
    available = []
    for described in sys.argv[3:]:
        platform, *paths = described.split(":")
        platform, _, variant = platform.partition("-")
        archives = [pathlib.Path(path).read_bytes() for path in paths]
        names = [ARCHITECTURES[processor(archive)][0] for archive in archives]
        identifier = "-".join(filter(None, [platform, "_".join(names), variant]))
        # In a folder of the module's own, for an app has one folder for the headers of all its libraries.
        headers = folder / identifier / "Headers" / module
        headers.mkdir(parents=True)
        (folder / identifier / library).write_bytes(fat(archives) if len(archives) > 1 else archives[0])
        shutil.copy(header, headers)
        (headers / "module.modulemap").write_text(f'module {module} {{\n    header "{header.name}"\n    export *\n}}\n')
        entry = {
            "BinaryPath": library,
            "HeadersPath": "Headers",
            "LibraryIdentifier": identifier,
            "LibraryPath": library,
            "SupportedArchitectures": names,
            "SupportedPlatform": platform,
        }
        available.append(entry | ({"SupportedPlatformVariant": variant} if variant else {}))
    with open(folder / "Info.plist", "wb") as file:
        plistlib.dump(
            {"AvailableLibraries": available, "CFBundlePackageType": "XFWK", "XCFrameworkFormatVersion": "1.0"}, file)


main()
