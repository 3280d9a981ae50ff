// swift-tools-version:5.5
import PackageDescription

// On Apple's systems the C libraries come as two `.xcframework` folders beside this file, which
// `tests/cross/apple/xcframework` assembles; elsewhere from where they are installed, through pkg-config.
#if os(macOS)
let libraries: [Target] = [
    .binaryTarget(name: "CFreezeframe", path: "CFreezeframe.xcframework"),
    .binaryTarget(name: "CFreezeframeUnwind", path: "CFreezeframeUnwind.xcframework"),
]
#else
let libraries: [Target] = [
    .systemLibrary(name: "CFreezeframe", pkgConfig: "freezeframe"),
    .systemLibrary(name: "CFreezeframeUnwind", pkgConfig: "freezeframe_unwind"),
]
#endif

let package = Package(
    name: "Freezeframe",
    platforms: [.macOS(.v11), .iOS(.v12)],
    products: [
        // The monitor.
        .library(name: "Freezeframe", targets: ["Freezeframe"]),
        // The stack walker, as C has it: what signal handlers may call is not for Swift.
        .library(name: "CFreezeframeUnwind", targets: ["CFreezeframeUnwind"]),
    ],
    targets: libraries + [
        .target(
            name: "Freezeframe",
            dependencies: ["CFreezeframe"],
            linkerSettings: [.linkedFramework("CoreFoundation", .when(platforms: [.macOS, .iOS]))]),
        .executableTarget(name: "FrozenLoop", dependencies: ["Freezeframe"]),
        .testTarget(name: "FreezeframeTests", dependencies: ["Freezeframe"]),
    ]
)
