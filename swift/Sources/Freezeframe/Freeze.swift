import CFreezeframe

/// What a loop is about to do, with the values of `CFRunLoopActivity`.
public enum Activity: Int32, Sendable {
    case entry = 1
    case beforeTimers = 2
    case beforeSources = 4
    case beforeWaiting = 32
    case afterWaiting = 64
    case exit = 128
}

/// What was noticed.
public enum Kind: UInt32, Sendable {
    case unknown = 0
    case freeze = 1
    case crash = 2
    /// A loop that turns, but never waits.
    case neverIdle = 3
    /// A process that takes much of the processors.
    case cpuHigh = 4
}

public enum Severity: UInt32, Comparable, Sendable {
    case unnoticed = 0
    case micro = 1
    case freeze = 2
    case severe = 3
    case unresponsive = 4

    public static func < (one: Severity, other: Severity) -> Bool { one.rawValue < other.rawValue }
}

/// Why the loop does not turn.
public enum Cause: UInt32, Sendable {
    case unknown = 0
    case computing = 1
    case lock = 2
    case inputOutput = 3
    case sleeping = 4
    case child = 5
    case peer = 6
    case idle = 7
    case starved = 8
}

/// A freeze, as `Configuration.onFreeze` hears of it.
public struct Freeze: Sendable {
    /// A point in a freeze's life.
    public enum Phase: UInt32, Sendable {
        case unknown = 0
        /// The threshold has passed. The stacks were taken just now.
        case detected = 1
        /// It goes on, and is more severe than before.
        case worsened = 2
        case recovered = 3
        /// The monitor was stopped or paused before the end.
        case lost = 4
    }

    public let phase: Phase
    public let kind: Kind
    public let severity: Severity
    public let cause: Cause
    /// Whether it is counted in an earlier record of the same stack and has none of its own.
    public let isCounted: Bool
    /// How long it has lasted, in seconds.
    public let duration: Double
    /// How long after the threshold it was noticed, in seconds; zero later on.
    public let detectionDelay: Double
    /// The number of its record in the report file.
    public let record: UInt64?
    public let component: String

    init(_ freeze: ff_freeze) {
        phase = Phase(rawValue: freeze.phase) ?? .unknown
        kind = Kind(rawValue: freeze.kind) ?? .unknown
        severity = Severity(rawValue: freeze.severity) ?? .unresponsive
        cause = Cause(rawValue: freeze.cause) ?? .unknown
        isCounted = freeze.counted != 0
        duration = seconds(freeze.duration_ns)
        detectionDelay = seconds(freeze.detection_delay_ns)
        record = freeze.record == 0 ? nil : freeze.record
        component = String(cString: freeze.component)
    }
}

func seconds(_ nanoseconds: UInt64) -> Double { Double(nanoseconds) / 1e9 }
