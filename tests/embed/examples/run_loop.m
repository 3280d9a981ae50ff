/* A program with an NSRunLoop: one timer takes too long. Apple's main run loop is watched by itself, GNUstep's by pings. */
#import <Foundation/Foundation.h>
#include <freezeframe.h>

@interface Library : NSObject
- (void)indexTheFolder:(NSTimer *)timer;
- (void)answer:(NSNumber *)ping;
@end

static Library *library;
static ff_monitor *monitor;

@implementation Library
- (void)indexTheFolder:(NSTimer *)timer {
    [NSThread sleepForTimeInterval:0.7];
    fputs("indexed\n", stderr);
}
- (void)answer:(NSNumber *)ping { ff_monitor_answer(monitor, [ping unsignedLongLongValue]); }
@end

#ifdef __APPLE__
static ff_monitor_error start(const ff_monitor_config *config) { return ff_monitor_start_main_run_loop(config, &monitor); }
#else
/* On the monitor's thread. */
static void post(void *context, ff_monitor *asks, uint64_t ping) {
    (void)context, (void)asks;
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    [library performSelectorOnMainThread:@selector(answer:)
                              withObject:[NSNumber numberWithUnsignedLongLong:ping]
                           waitUntilDone:NO];
    [pool drain];
}
static ff_monitor_error start(const ff_monitor_config *config) {
    return ff_monitor_start_ping(config, post, NULL, NULL, 0, &monitor);
}
#endif

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    library = [Library new];
    ff_monitor_config config;
    ff_monitor_config_init(&config);
    config.component = "main";
    config.report_file = argv[1];
    if (start(&config)) return fprintf(stderr, "%s\n", ff_monitor_last_error()), 1;

    [NSTimer scheduledTimerWithTimeInterval:0.2 target:library selector:@selector(indexTheFolder:) userInfo:nil repeats:NO];
    [[NSRunLoop currentRunLoop] runUntilDate:[NSDate dateWithTimeIntervalSinceNow:1.5]];
    ff_monitor_stop(monitor);

    ff_records *records = NULL;
    if (ff_records_take(argv[1], &records) || ff_records_count(records) != 1) return fputs("no record\n", stderr), 1;
    puts(ff_record_text(records, 0));
    ff_records_free(records);
    [pool drain];
    return 0;
}
