// An event loop of the program's own, watched by its activities: one event takes too long.
#include <freezeframe.h>
#include <chrono>
#include <cstdio>
#include <functional>
#include <poll.h>
#include <queue>
#include <thread>

static void on_freeze(void *, const ff_freeze *freeze) {
    std::fprintf(stderr, "%s: phase %u after %llu ms\n", freeze->component, freeze->phase,
                 static_cast<unsigned long long>(freeze->duration_ns / 1000000));
}

[[gnu::noinline]] void load_pictures() {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    std::fputs("loaded\n", stderr);
}

int main(int, char **argv) {
    const char *file = argv[1];
    ff_monitor_config config;
    ff_monitor_config_init(&config);
    config.component = "main";
    config.app = "com.example.loop";
    config.report_file = file;
    config.on_freeze = on_freeze;
    ff_monitor *monitor = nullptr;
    if (ff_monitor_error error = ff_monitor_start(&config, &monitor)) {
        return std::fprintf(stderr, "%s: %s\n", ff_monitor_strerror(error), ff_monitor_last_error()), 1;
    }
    ff_monitor_set_value(monitor, "document", "holiday");
    std::queue<std::function<void()>> events;
    for (int n = 0; n < 5; n++) events.push([n] { if (n == 3) load_pictures(); });

    ff_monitor_transition(monitor, FF_ACTIVITY_ENTRY);
    while (!events.empty()) {
        ff_monitor_transition(monitor, FF_ACTIVITY_BEFORE_WAITING);
        poll(nullptr, 0, 20);
        ff_monitor_transition(monitor, FF_ACTIVITY_AFTER_WAITING);
        events.front()();
        events.pop();
    }
    ff_monitor_transition(monitor, FF_ACTIVITY_EXIT);
    poll(nullptr, 0, 200);  // the end of the freeze is written down by the next timeout
    ff_monitor_stop(monitor);

    ff_records *records = nullptr;
    if (ff_records_take(file, &records) || ff_records_count(records) != 1) return std::fputs("no record\n", stderr), 1;
    std::puts(ff_record_text(records, 0));
    ff_records_free(records);
}
