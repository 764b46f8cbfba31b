/* For core/plugin, besides what stand_ins/core_plugin.c has: loaders are the executors' own, and nobody registers one. */
#include "core/plugin/plugin.h"

bool mb_no_loader(const char *function, const mblob_loader *loader) {
  (void)function;
  return !loader;
}
int mb_loader_copy(const mblob_loader *given, mblob_loader *out) {
  *out = *given;
  return MBLOB_OK;
}
void mb_loader_measure(const mblob_loader *loader, struct mb_measure *out) {
  (void)loader, (void)out;
}
enum mb_found mb_registered_loader(enum mb_loader_order order, const char *type_key,
                                   mblob_loader *out) {
  (void)order, (void)type_key, (void)out;
  return MB_ABSENT;
}
bool mb_registered_measure(enum mb_loader_order order, const char *type_key,
                           struct mb_measure *out) {
  (void)order, (void)type_key, (void)out;
  return false;
}
void mb_list_registered_loaders(FILE *out, size_t *count) { (void)out, (void)count; }
enum mb_found mb_plugin_carried(struct mb_library *library, const char *type_key,
                                const mblob_runtime **out) {
  (void)library, (void)type_key, (void)out;
  return MB_ABSENT;
}
enum mb_found mb_plugin_in_files(const char *type_key, const mblob_runtime **out) {
  (void)type_key, (void)out;
  return MB_ABSENT;
}
bool mb_plugin_measure(const struct mb_library *library, const char *type_key,
                       struct mb_measure *out) {
  (void)library, (void)type_key, (void)out;
  return false;
}
mblob_loader mb_plugin_loader(const mblob_runtime *runtime) {
  (void)runtime;
  return (mblob_loader){0};
}
bool mb_plugin_has_function(const mblob_function *function) {
  (void)function;
  return false;
}
char *mb_plugin_candidates(const char *name) {
  (void)name;
  return NULL;
}
const char *mb_plugin_path(void) { return ""; }
