import CFreezeframe
import Foundation

/// A record of a report file.
public struct Record {
    public enum Outcome: UInt32, Sendable {
        case unknown = 0
        case ongoing = 1
        case recovered = 2
        /// The process ended in the middle of it.
        case killed = 3
    }

    public let kind: Kind
    public let outcome: Outcome
    public let severity: Severity
    public let cause: Cause
    /// The signal's number, of a crash.
    public let signal: Int32?
    /// How many threads there are.
    public let threads: Int
    /// Whether every byte of it was there and had the right checksum.
    public let isComplete: Bool
    /// Its number in the file.
    public let sequence: UInt64
    /// How long the freeze lasted, as far as is known, in seconds.
    public let duration: Double
    /// When it was detected.
    public let date: Date
    public let uuid: String
    public let component: String
    /// Every field, as one JSON object.
    public let json: String
    /// The same for people, with the stacks of all threads.
    public let text: String

    /// What earlier runs have left, the oldest first; makes room for new records. Once, before a monitor opens the file.
    public static func take(from path: String) throws -> [Record] { try all { ff_records_take(path, $0) } }

    /// What the file holds, and leaves it as it is. A monitor may write to it meanwhile.
    public static func read(from path: String) throws -> [Record] { try all { ff_records_read(path, $0) } }

    private static func all(_ open: (UnsafeMutablePointer<OpaquePointer?>) -> ff_monitor_error) throws -> [Record] {
        var records: OpaquePointer?
        try check(open(&records))
        defer { ff_records_free(records) }
        return try (0..<ff_records_count(records)).map { index in
            var record = ff_record()
            record.size = UInt32(MemoryLayout<ff_record>.size)
            try check(ff_record_at(records, index, &record))
            return Record(record, json: ff_record_json(records, index), text: ff_record_text(records, index))
        }
    }

    private init(_ record: ff_record, json: UnsafePointer<CChar>, text: UnsafePointer<CChar>) {
        kind = Kind(rawValue: record.kind) ?? .unknown
        outcome = Outcome(rawValue: record.outcome) ?? .unknown
        severity = Severity(rawValue: record.severity) ?? .unresponsive
        cause = Cause(rawValue: record.cause) ?? .unknown
        signal = record.signal == 0 ? nil : record.signal
        threads = Int(record.threads)
        isComplete = record.complete != 0
        sequence = record.sequence
        duration = seconds(record.duration_ns)
        date = Date(timeIntervalSince1970: seconds(record.wall_ns))
        uuid = String(cString: record.uuid)
        component = String(cString: record.component)
        self.json = String(cString: json)
        self.text = String(cString: text)
    }
}
