/* Where programs that were built with version 0.1 find the fields of the structures, on 64-bit systems. What is added to a structure
 * takes the place of what is reserved. */
#include <freezeframe.h>
#include <freezeframe_unwind.h>
#include <stddef.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes) && offsetof(type, size) == 0, "the size of " #type)
#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)

SIZE(ff_options, 56);
AT(ff_options, first, 4); AT(ff_options, within_ms, 8); AT(ff_options, exclude_count, 12); AT(ff_options, exclude, 16);
AT(ff_options, reserved, 24);

SIZE(ff_image, 96);
AT(ff_image, kind, 4); AT(ff_image, start, 8); AT(ff_image, end, 16); AT(ff_image, slide, 24); AT(ff_image, path, 32);
AT(ff_image, path_length, 40); AT(ff_image, build_id, 48); AT(ff_image, build_id_length, 56); AT(ff_image, reserved, 64);

SIZE(ff_thread, 184);
AT(ff_thread, id, 4); AT(ff_thread, main, 8); AT(ff_thread, held, 9); AT(ff_thread, state, 10);
AT(ff_thread, reserved_byte, 11); AT(ff_thread, why, 12); AT(ff_thread, stop, 16); AT(ff_thread, frames, 20);
AT(ff_thread, omitted_after, 24); AT(ff_thread, reserved_word, 28); AT(ff_thread, omitted, 32);
AT(ff_thread, stop_address, 40); AT(ff_thread, held_ns, 48); AT(ff_thread, cpu_ns, 56); AT(ff_thread, pc, 64);
AT(ff_thread, sp, 72); AT(ff_thread, fp, 80); AT(ff_thread, name, 88); AT(ff_thread, reserved, 152);

SIZE(ff_frame, 64);
AT(ff_frame, trust, 4); AT(ff_frame, address, 8); AT(ff_frame, lookup, 16); AT(ff_frame, sp, 24); AT(ff_frame, reserved, 32);

SIZE(ff_config, 40);
AT(ff_config, signal, 4); AT(ff_config, reserved, 8);

SIZE(ff_freeze, 88);
AT(ff_freeze, phase, 4); AT(ff_freeze, kind, 8); AT(ff_freeze, severity, 12); AT(ff_freeze, cause, 16);
AT(ff_freeze, counted, 20); AT(ff_freeze, duration_ns, 24); AT(ff_freeze, detection_delay_ns, 32); AT(ff_freeze, record, 40);
AT(ff_freeze, component, 48); AT(ff_freeze, reserved, 56);

SIZE(ff_monitor_config, 144);
AT(ff_monitor_config, interval_ms, 4); AT(ff_monitor_config, misses, 8); AT(ff_monitor_config, daily_cap, 12);
AT(ff_monitor_config, record_repeats, 16); AT(ff_monitor_config, hold_together, 20);
AT(ff_monitor_config, never_idle_ms, 24); AT(ff_monitor_config, reserved_word, 28); AT(ff_monitor_config, component, 32);
AT(ff_monitor_config, app, 40); AT(ff_monitor_config, version, 48); AT(ff_monitor_config, report_file, 56);
AT(ff_monitor_config, on_freeze, 64); AT(ff_monitor_config, context, 72); AT(ff_monitor_config, reserved, 80);

SIZE(ff_record, 104);
AT(ff_record, kind, 4); AT(ff_record, outcome, 8); AT(ff_record, severity, 12); AT(ff_record, cause, 16);
AT(ff_record, signal, 20); AT(ff_record, threads, 24); AT(ff_record, complete, 28); AT(ff_record, sequence, 32);
AT(ff_record, duration_ns, 40); AT(ff_record, wall_ns, 48); AT(ff_record, uuid, 56); AT(ff_record, component, 64);
AT(ff_record, reserved, 72);

SIZE(ff_statistics, 88);
AT(ff_statistics, watching, 4); AT(ff_statistics, freezes, 8); AT(ff_statistics, false_alarms, 16);
AT(ff_statistics, counted, 24); AT(ff_statistics, wakeups, 32); AT(ff_statistics, late_ticks, 40);
AT(ff_statistics, unheard, 48); AT(ff_statistics, capped, 56); AT(ff_statistics, never_idle, 64);
AT(ff_statistics, reserved, 72);

int main(void) { return 0; }
