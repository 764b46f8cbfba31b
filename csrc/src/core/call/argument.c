#include "core/call/argument.h"

#include "base/base.h"
#include "core/loaded/loaded.h"

static const char *kind_of_tag(uint32_t tag) {
  if (tag == MB_TAG_MODULE) return "a module";
  if (tag == MB_TAG_FUNCTION) return "a function";
  if (tag == MB_TAG_OBJECT) return "a container";
  return "no object of this runtime";
}

static bool is_not(uint32_t tag, const char *function, const char *argument, const void *given) {
  uint32_t found = given ? *(const uint32_t *)given : 0;
  if (given && found == tag) return false;
  (void)mb_fail_argument(given ? MB_ARGUMENT_TYPE : MB_ARGUMENT_VALUE, "%s: %s is %s, expected %s",
                         function, argument, given ? kind_of_tag(found) : "NULL", kind_of_tag(tag));
  return true;
}

bool mb_handle_is_module(const void *handle) { return *(const uint32_t *)handle == MB_TAG_MODULE; }

const char *mb_handle_kind(const void *handle) { return kind_of_tag(*(const uint32_t *)handle); }

bool mb_is_null(const char *function, const char *argument, const void *given) {
  if (given) return false;
  (void)mb_fail(MBLOB_E_ARGUMENT, "%s: %s is NULL", function, argument);
  return true;
}

bool mb_no_module(const char *function, const char *argument, const void *given) {
  return is_not(MB_TAG_MODULE, function, argument, given);
}

bool mb_no_function(const char *function, const char *argument, const void *given) {
  return is_not(MB_TAG_FUNCTION, function, argument, given);
}

int mb_named_result(const char *function, int status) {
  if (status) mb_error_prefix(function);
  return status ? -1 : 0;
}
