/* Every function of freezeframe_unwind.h with null pointers, and in states in which it can do nothing. */
#include "check.h"
#include <freezeframe_unwind.h>
#include <string.h>

static _Alignas(FF_STORAGE_ALIGN) unsigned char storage[FF_STORAGE_SIZE], raw[FF_STORAGE_SIZE];

int main(void) {
    ff_core *core = NULL, *never = (ff_core *)(void *)raw;
    ff_thread thread = { .size = sizeof thread };
    ff_frame frame = { .size = sizeof frame };
    ff_image image = { .size = sizeof image };
    ff_options options = { .size = sizeof options };
    ff_config config = { .size = sizeof config, .signal = -5 };
    size_t count = 77;
    uint64_t start = 0;

    CHECK(ff_version() == FF_VERSION);
    CHECK(ff_current_thread() > 0);
    CHECK(ff_storage_size() > 500000 && ff_storage_size() <= FF_STORAGE_SIZE);
    for (int error = -1; error < 14; error++) CHECK(strlen(ff_strerror(error)) > 5);
    for (unsigned stop = 0; stop < 13; stop++) CHECK(strlen(ff_stop_text(stop)) > 5);
    char words[8] = "";
    CHECK(ff_why_text(1, NULL, 0) > 8 && ff_why_text(1, words, sizeof words) > 8 && strlen(words) == 7);
    CHECK(ff_why_text(0, words, sizeof words) == 0 && words[0] == 0 && ff_why_text(999, NULL, 8) > 0);

    CHECK(ff_init(NULL, 0, NULL, NULL) == FF_ERROR_NULL);
    CHECK(ff_init(storage, sizeof storage, NULL, NULL) == FF_ERROR_NULL);
    CHECK(ff_init(storage, ff_storage_size() - 1, NULL, &core) == FF_ERROR_STORAGE);
    CHECK(ff_init(storage + 1, sizeof storage - 1, NULL, &core) == FF_ERROR_STORAGE);
    CHECK(ff_init(storage, sizeof storage, &config, &core) == FF_ERROR_INIT && core == NULL);
    config.size = 4;
    CHECK(ff_init(storage, sizeof storage, &config, &core) == FF_ERROR_SIZE && core == NULL);

    ff_core *wrong[] = { NULL, never, (ff_core *)(void *)(raw + 1) };
    for (size_t n = 0; n < 3; n++) {
        ff_error error = n == 0 ? FF_ERROR_NULL : FF_ERROR_STORAGE;
        int context[256] = { 0 };
        CHECK(ff_capture_self(wrong[n]) == error);
        CHECK(ff_capture_context(wrong[n], context) == error);
        CHECK(ff_capture_all_from_context(wrong[n], context, &options) == error);
        CHECK(ff_capture_thread(wrong[n], 1) == error);
        CHECK(ff_capture_all(wrong[n], &options) == error);
        CHECK(ff_thread_count(wrong[n], &count, NULL) == error && count == 77);
        CHECK(ff_thread_at(wrong[n], 0, &thread) == error);
        CHECK(ff_frame_at(wrong[n], 0, 0, &frame) == error);
        CHECK(ff_refresh_images(wrong[n]) == error);
        CHECK(ff_image_find(wrong[n], 1, &image) == error);
        CHECK(ff_image_at(wrong[n], 0, &image) == error);
        CHECK(ff_function_start(wrong[n], 1, &start) == error);
    }

    CHECK(ff_init(storage, sizeof storage, NULL, &core) == FF_OK && (void *)core == storage);
    CHECK(ff_thread_count(core, &count, NULL) == FF_OK && count == 0);
    CHECK(ff_thread_count(core, NULL, &count) == FF_ERROR_NULL);
    CHECK(ff_thread_at(core, 0, &thread) == FF_ERROR_NOT_FOUND);
    CHECK(ff_frame_at(core, 0, 0, &frame) == FF_ERROR_NOT_FOUND);
    CHECK(ff_capture_context(core, NULL) == FF_ERROR_NULL);
    CHECK(ff_capture_all_from_context(core, NULL, NULL) == FF_ERROR_NULL);
    CHECK(ff_capture_thread(core, 0) == FF_ERROR_ARGUMENT && ff_capture_thread(core, -1) == FF_ERROR_ARGUMENT);
    options.size = 8;
    CHECK(ff_capture_all(core, &options) == FF_ERROR_SIZE);
    options.size = sizeof options;
    options.exclude_count = 1;
    CHECK(ff_capture_all(core, &options) == FF_ERROR_NULL);
    int32_t id = 1;
    options.exclude = &id, options.exclude_count = 65;
    CHECK(ff_capture_all(core, &options) == FF_ERROR_ARGUMENT);
    CHECK(ff_capture_self(core) == FF_OK);
    CHECK(ff_thread_at(core, 0, NULL) == FF_ERROR_NULL && ff_frame_at(core, 0, 0, NULL) == FF_ERROR_NULL);
    CHECK(ff_thread_at(core, 1, &thread) == FF_ERROR_NOT_FOUND && ff_frame_at(core, 0, 9999, &frame) == FF_ERROR_NOT_FOUND);
    thread.size = 100, frame.size = 0, image.size = 8;
    CHECK(ff_thread_at(core, 0, &thread) == FF_ERROR_SIZE && ff_frame_at(core, 0, 0, &frame) == FF_ERROR_SIZE);
    CHECK(ff_image_at(core, 0, &image) == FF_ERROR_SIZE && ff_image_at(core, 0, NULL) == FF_ERROR_NULL);
    CHECK(ff_image_find(core, 1, NULL) == FF_ERROR_NOT_FOUND && ff_image_at(core, 5000, &image) == FF_ERROR_NOT_FOUND);
    CHECK(ff_function_start(core, 1, NULL) == FF_ERROR_NULL && ff_function_start(core, 1, &start) == FF_ERROR_NOT_FOUND);
    CHECK(ff_refresh_images(core) == FF_OK);
    puts("every function returned its error");
    return 0;
}
