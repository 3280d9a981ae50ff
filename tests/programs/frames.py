# What gdb says about every thread of the process that it is attached to: for each frame its pc, and its kind.
import gdb

gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace past-entry on")

KINDS = {gdb.NORMAL_FRAME: "normal", gdb.INLINE_FRAME: "inline", gdb.TAILCALL_FRAME: "tail call", gdb.SIGTRAMP_FRAME: "signal"}

for thread in gdb.selected_inferior().threads():
    thread.switch()
    print("thread", thread.ptid[1])
    frame = gdb.newest_frame()
    for _ in range(10000):
        print("frame %#x %s" % (frame.pc(), KINDS.get(frame.type(), "other")))
        try:
            older = frame.older()
        except gdb.error as error:
            print("stop", error)
            break
        if older is None:
            print("stop", gdb.frame_stop_reason_string(frame.unwind_stop_reason()))
            break
        frame = older
