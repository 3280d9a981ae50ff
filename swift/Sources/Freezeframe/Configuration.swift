import CFreezeframe
import Foundation

/// How a monitor is set up. What is zero or nil is as usual.
public struct Configuration {
    /// Which part of the program is watched.
    public var component: String
    /// The program's identifier and version; the executable's name if there is none.
    public var app: String?
    public var version: String?
    /// The path of the file that takes the reports, made if there is none.
    public var reportFile: String?
    /// How long one timeout is, in milliseconds (50), and how many in a row make a freeze (5).
    public var interval: UInt32 = 0
    public var misses: UInt32 = 0
    /// How many records are written in a day at most (100).
    public var dailyCap: UInt32 = 0
    /// Whether each freeze gets a record, also of a stack that has one.
    public var recordRepeats = false
    /// Whether all threads are held at one time (Linux).
    public var holdTogether = false
    /// A loop that turns but has not waited for so many milliseconds is reported, too; zero: it is not.
    public var neverIdle: UInt32 = 0
    /// Hears of freezes, on a thread of the monitor's, while the loop may still be frozen.
    public var onFreeze: ((Freeze) -> Void)?

    public init(component: String, reportFile: String? = nil, onFreeze: ((Freeze) -> Void)? = nil) {
        self.component = component
        self.reportFile = reportFile
        self.onFreeze = onFreeze
    }

    /// Calls `body` with what C needs, whose texts are valid until it returns.
    func withC<Result>(_ hooks: Hooks, _ body: (UnsafePointer<ff_monitor_config>) throws -> Result) rethrows -> Result {
        let texts = [component, app, version, reportFile].map { $0.flatMap { strdup($0) } }
        defer { texts.forEach { free($0) } }
        var config = ff_monitor_config()
        ff_monitor_config_init(&config)
        config.component = UnsafePointer(texts[0])
        config.app = UnsafePointer(texts[1])
        config.version = UnsafePointer(texts[2])
        config.report_file = UnsafePointer(texts[3])
        config.interval_ms = interval
        config.misses = misses
        config.daily_cap = dailyCap
        config.record_repeats = recordRepeats ? 1 : 0
        config.hold_together = holdTogether ? 1 : 0
        config.never_idle_ms = neverIdle
        if onFreeze != nil {
            config.on_freeze = { context, freeze in
                if let context = context, let freeze = freeze { Hooks.of(context).freeze(Freeze(freeze.pointee)) }
            }
            config.context = hooks.context
        }
        return try body(&config)
    }
}

/// The program's closures. They are called on threads of the monitor's, of which one may still be in a closure when the monitor
/// was stopped: the object stays for good, the closures go.
final class Hooks {
    private let lock = NSLock()
    private var onFreeze: ((Freeze) -> Void)?
    private var post: ((Ping) -> Void)?
    private var isWaiting: (() -> Bool)?

    init(onFreeze: ((Freeze) -> Void)? = nil, post: ((Ping) -> Void)? = nil, isWaiting: (() -> Bool)? = nil) {
        self.onFreeze = onFreeze
        self.post = post
        self.isWaiting = isWaiting
        _ = Unmanaged.passRetained(self)
    }

    var context: UnsafeMutableRawPointer { Unmanaged.passUnretained(self).toOpaque() }

    static func of(_ context: UnsafeMutableRawPointer) -> Hooks {
        Unmanaged<Hooks>.fromOpaque(context).takeUnretainedValue()
    }

    func clear() {
        lock.lock()
        defer { lock.unlock() }
        (onFreeze, post, isWaiting) = (nil, nil, nil)
    }

    private func now<Hook>(_ hook: () -> Hook?) -> Hook? {
        lock.lock()
        defer { lock.unlock() }
        return hook()
    }

    func freeze(_ freeze: Freeze) { now { onFreeze }?(freeze) }
    func ask(_ ping: Ping) { now { post }?(ping) }
    func waits() -> Bool { now { isWaiting }?() ?? false }
}
