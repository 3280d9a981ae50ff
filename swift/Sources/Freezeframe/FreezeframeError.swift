import CFreezeframe

/// Why a call has failed.
public struct FreezeframeError: Error, Equatable, CustomStringConvertible, Sendable {
    /// The library's code: an `FF_MONITOR_ERROR_…`.
    public let code: UInt32
    public let description: String

    /// The monitor was stopped.
    public var isStopped: Bool { code == FF_MONITOR_ERROR_STOPPED.rawValue }
    /// The report file cannot be used.
    public var isOfFile: Bool { code == FF_MONITOR_ERROR_FILE.rawValue }
}

/// Throws what a call has returned, unless all went well. On the thread of the call.
func check(_ result: ff_monitor_error) throws {
    guard result != FF_MONITOR_OK else { return }
    throw FreezeframeError(code: result.rawValue, description: String(cString: ff_monitor_last_error()))
}
