import Foundation
import XCTest

@testable import Freezeframe

final class MonitorTests: XCTestCase {
    private func temporaryFile() -> String { NSTemporaryDirectory() + "freezeframe-\(UUID().uuidString).ffr" }

    /// A loop that turns so often; `busy` is called in the middle.
    private func turn(_ monitor: FreezeMonitor, _ busy: () -> Void) throws {
        try monitor.transition(.entry)
        for turn in 0..<5 {
            try monitor.transition(.beforeWaiting)
            Thread.sleep(forTimeInterval: 0.02)
            try monitor.transition(.afterWaiting)
            if turn == 2 { busy() }
        }
        try monitor.transition(.exit)
        Thread.sleep(forTimeInterval: 0.3)
    }

    func testAFreezeIsToldAndRecorded() throws {
        let file = temporaryFile()
        defer { try? FileManager.default.removeItem(atPath: file) }
        let lock = NSLock()
        var phases: [Freeze.Phase] = []
        var configuration = Configuration(component: "table", reportFile: file) { freeze in
            lock.lock()
            defer { lock.unlock() }
            phases.append(freeze.phase)
            XCTAssertEqual(freeze.component, "table")
        }
        configuration.app = "com.example.swift"
        configuration.interval = 40
        let monitor = try FreezeMonitor(thisThread: configuration)
        try monitor.set("document", "Grüße")
        try monitor.breadcrumb("opened the settings")
        try turn(monitor) { Thread.sleep(forTimeInterval: 0.6) }
        XCTAssertEqual(try monitor.statistics().freezes, 1)
        try monitor.stop()
        lock.lock()
        XCTAssertEqual(phases.first, .detected)
        XCTAssertEqual(phases.last, .recovered)
        lock.unlock()

        let records = try Record.take(from: file)
        XCTAssertEqual(records.count, 1)
        let record = try XCTUnwrap(records.first)
        XCTAssertEqual(record.kind, .freeze)
        XCTAssertEqual(record.outcome, .recovered)
        XCTAssertEqual(record.cause, .sleeping)
        XCTAssertEqual(record.severity, .freeze)
        XCTAssertNil(record.signal)
        XCTAssertTrue(record.isComplete)
        XCTAssertGreaterThan(record.duration, 0.5)
        XCTAssertLessThan(abs(record.date.timeIntervalSinceNow), 60)
        XCTAssertTrue(record.text.contains("com.example.swift"))
        XCTAssertTrue(record.text.contains("opened the settings"))
        let json = try JSONSerialization.jsonObject(with: Data(record.json.utf8))
        XCTAssertTrue("\(json)".contains("Gr"))
        XCTAssertEqual(try Record.take(from: file).count, 0)
    }

    func testNothingIsCountedWhilePausedOrExpected() throws {
        let monitor = try FreezeMonitor(thisThread: Configuration(component: "main"))
        try turn(monitor) {
            try? monitor.paused { Thread.sleep(forTimeInterval: 0.5) }
            try? monitor.expecting(5000, "migrates") { Thread.sleep(forTimeInterval: 0.5) }
        }
        XCTAssertEqual(try monitor.statistics().freezes, 0)
    }

    func testAQueueIsWatchedByPings() throws {
        // A queue on this thread.
        let lock = NSLock()
        var waiting: [Ping] = []
        var answered = 0
        let monitor = try FreezeMonitor(pinging: Configuration(component: "queue")) { ping in
            lock.lock()
            defer { lock.unlock() }
            waiting.append(ping)
        }
        func turn(for time: TimeInterval) {
            let end = Date(timeIntervalSinceNow: time)
            while Date() < end {
                lock.lock()
                let pings = waiting
                waiting = []
                lock.unlock()
                pings.forEach { $0.answer() }
                answered += pings.count
                Thread.sleep(forTimeInterval: 0.005)
            }
        }
        turn(for: 0.5)
        XCTAssertGreaterThan(answered, 3)
        XCTAssertEqual(try monitor.statistics().freezes, 0)
        Thread.sleep(forTimeInterval: 0.7)
        turn(for: 0.3)
        XCTAssertEqual(try monitor.statistics().freezes, 1)
    }

    func testClosuresGoWithTheMonitor() throws {
        final class Witness {}
        weak var witness: Witness?
        do {
            let kept = Witness()
            witness = kept
            let monitor = try FreezeMonitor(thisThread: Configuration(component: "main") { _ in _ = kept })
            XCTAssertNotNil(witness)
            try monitor.stop()
        }
        XCTAssertNil(witness)
    }

    func testWhatCannotBeThrowsAndSaysWhy() throws {
        XCTAssertThrowsError(try FreezeMonitor(thisThread: Configuration(component: "m", reportFile: "/no/such/file"))) {
            XCTAssertEqual(($0 as? FreezeframeError)?.isOfFile, true)
            XCTAssertTrue("\($0)".contains("/no/such"), "\($0)")
        }
        XCTAssertThrowsError(try Record.read(from: "/no/such/file"))
        let monitor = try FreezeMonitor(thisThread: Configuration(component: "main"))
        try monitor.stop()
        XCTAssertThrowsError(try monitor.transition(.entry)) {
            XCTAssertEqual(($0 as? FreezeframeError)?.isStopped, true)
            // Of this error, and not of an earlier one.
            XCTAssertFalse("\($0)".contains("/no/such"), "\($0)")
        }
    }
}
