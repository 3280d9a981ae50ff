// A program with a main loop, watched by its activities: one event takes too long. Prints the stacks of that moment.
import Foundation
import Freezeframe

@inline(never) func openTheLibrary() { Thread.sleep(forTimeInterval: 0.7) }

@inline(never) func handle(_ event: Int) { if event == 3 { openTheLibrary() } }

let file = CommandLine.arguments.count > 1 ? CommandLine.arguments[1] : NSTemporaryDirectory() + "freezes.ffr"
do {
    for record in try Record.take(from: file) { print("the last run has left", record.uuid) }
    let configuration = Configuration(component: "main", reportFile: file) { freeze in
        print(freeze.phase, "after", freeze.duration, "s, cause:", freeze.cause)
    }

    #if canImport(Darwin)
    // The system's own loop: nothing has to be told.
    let monitor = try FreezeMonitor(mainRunLoop: configuration)
    for event in 0..<5 { DispatchQueue.main.asyncAfter(deadline: .now() + 0.1 * Double(event)) { handle(event) } }
    RunLoop.main.run(until: Date(timeIntervalSinceNow: 1.5))
    #else
    let monitor = try FreezeMonitor(thisThread: configuration)
    try monitor.transition(.entry)
    for event in 0..<5 {
        try monitor.transition(.beforeWaiting)
        Thread.sleep(forTimeInterval: 0.02)
        try monitor.transition(.afterWaiting)
        handle(event)
    }
    try monitor.transition(.exit)
    Thread.sleep(forTimeInterval: 0.2)  // the end of the freeze is written down by the next timeout
    #endif

    try monitor.stop()
    for record in try Record.take(from: file) { print(record.text) }
} catch {
    print("failed:", error)
    exit(1)
}
