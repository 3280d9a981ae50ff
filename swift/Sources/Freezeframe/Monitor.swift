import CFreezeframe

/// Watches a run loop, and takes the stacks of all threads while it does not turn. Stops when it is released.
public final class FreezeMonitor {
    private let monitor: OpaquePointer
    private let hooks: Hooks

    private typealias Start = (UnsafePointer<ff_monitor_config>, UnsafeMutablePointer<OpaquePointer?>) -> ff_monitor_error

    private init(_ configuration: Configuration, _ hooks: Hooks, _ start: Start) throws {
        var monitor: OpaquePointer?
        do {
            try configuration.withC(hooks) { try check(start($0, &monitor)) }
        } catch {
            hooks.clear()
            throw error
        }
        self.monitor = monitor!
        self.hooks = hooks
    }

    deinit { try? stop() }

    /// Watches the loop of the calling thread, which tells by `transition` what it does.
    public convenience init(thisThread configuration: Configuration) throws {
        try self.init(configuration, Hooks(onFreeze: configuration.onFreeze)) { ff_monitor_start($0, $1) }
    }

    #if canImport(Darwin)
    /// Watches the main thread's run loop in the common modes, from any thread.
    public convenience init(mainRunLoop configuration: Configuration) throws {
        try self.init(configuration, Hooks(onFreeze: configuration.onFreeze)) { ff_monitor_start_main_run_loop($0, $1) }
    }
    #else
    /// Watches GLib's global main context, on the thread that runs it.
    public convenience init(glib configuration: Configuration) throws {
        try self.init(configuration, Hooks(onFreeze: configuration.onFreeze)) { ff_monitor_start_glib($0, nil, $1) }
    }
    #endif

    /// Watches a queue that runs on the calling thread. `post` must have each ping answered in the queue's turn, and must not wait
    /// for it. An idle queue is not woken if `isWaiting` says that it waits.
    public convenience init(
        pinging configuration: Configuration, isWaiting: (() -> Bool)? = nil, post: @escaping (Ping) -> Void
    ) throws {
        let hooks = Hooks(onFreeze: configuration.onFreeze, post: post, isWaiting: isWaiting)
        let ask: ff_ping_post = { context, monitor, number in
            if let context = context, let monitor = monitor { Hooks.of(context).ask(Ping(monitor: monitor, number: number)) }
        }
        let waits: ff_ping_is_waiting = { context in context.map { Hooks.of($0).waits() } ?? false ? 1 : 0 }
        try self.init(configuration, hooks) {
            ff_monitor_start_ping($0, ask, isWaiting == nil ? nil : waits, hooks.context, 0, $1)
        }
    }

    /// Tells what the loop is about to do, on its thread.
    public func transition(_ activity: Activity) throws { try check(ff_monitor_transition(monitor, activity.rawValue)) }

    /// Nothing is counted while `body` runs, in which the loop is known not to turn.
    public func paused<Result>(_ body: () throws -> Result) throws -> Result {
        try check(ff_monitor_pause(monitor))
        defer { ff_monitor_resume(monitor) }
        return try body()
    }

    /// Nothing is called a freeze for so many milliseconds, while `body` runs.
    public func expecting<Result>(_ milliseconds: UInt64, _ why: String, _ body: () throws -> Result) throws -> Result {
        try check(ff_monitor_expect(monitor, milliseconds, why))
        defer { ff_monitor_expect_end(monitor) }
        return try body()
    }

    /// Sets a value that each later report has: 16 names of 32 bytes, values of 128.
    public func set(_ name: String, _ value: String) throws { try check(ff_monitor_set_value(monitor, name, value)) }

    /// What the program does just now. The latest 16 are in each report.
    public func breadcrumb(_ words: String) throws { try check(ff_monitor_breadcrumb(monitor, words)) }

    /// Tells reports whether somebody looks at the program.
    public func setForeground(_ foreground: Bool) throws { try check(ff_monitor_set_app_state(monitor, foreground ? 1 : 2)) }

    /// What the monitor has seen and cost.
    public func statistics() throws -> Statistics {
        var now = ff_statistics()
        now.size = UInt32(MemoryLayout<ff_statistics>.size)
        try check(ff_monitor_statistics(monitor, &now))
        return Statistics(
            freezes: now.freezes, falseAlarms: now.false_alarms, counted: now.counted, wakeups: now.wakeups,
            lateTicks: now.late_ticks, unheard: now.unheard, capped: now.capped, neverIdle: now.never_idle,
            isWatching: now.watching != 0)
    }

    /// Stops watching; the loop may be frozen all the while. Calls after it throw.
    public func stop() throws {
        defer { hooks.clear() }
        try check(ff_monitor_stop(monitor))
    }
}

/// What a monitor has seen and cost.
public struct Statistics: Equatable, Sendable {
    public let freezes, falseAlarms, counted, wakeups, lateTicks, unheard, capped, neverIdle: UInt64
    /// Whether a freeze would be noticed, unless the monitor is paused.
    public let isWatching: Bool
}

/// A question to a queue.
public struct Ping {
    let monitor: OpaquePointer
    let number: UInt64

    /// To be called in the queue's turn. The handle is never freed, and a late answer harms nobody.
    public func answer() { ff_monitor_answer(monitor, number) }
}
