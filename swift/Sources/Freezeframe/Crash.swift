import CFreezeframe

/// Reports of crashes, where the system's library has them; elsewhere the calls throw.
public enum CrashReporter {
    /// Writes a record of a crash into the file at `path`, which monitors may use too. Once, early. The calling thread is protected.
    public static func install(reportFile path: String, app: String? = nil, version: String? = nil) throws {
        try check(ff_crash_install(path, app, version))
    }

    /// Gives the calling thread an alternate stack for good, so that an overflow of its own one is reported.
    public static func protectThread() throws { try check(ff_crash_protect_thread()) }
}
