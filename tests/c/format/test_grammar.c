/* test_grammar: a field whose type the C reader does not know fails the payload; it is not skipped. */
#include "base/base.h"
#include "base/type_keys.h"
#undef MB_GRAMMARS_OF_FFI
#define MB_GRAMMARS_OF_FFI "known s\0unknown sr\0"
#define mb_payload_walk walk
#define mb_payload_is_known is_known
#include "../../../csrc/src/format/payload_grammar.c"

#include "../common/check.h"

static int walk_of(const char *key) {
  static const uint8_t payload[] = {1, 0, 0, 0, 0, 0, 0, 0, 'x', 'r', 'e', 's', 't'};
  struct mb_cursor c = {payload, 0, sizeof(payload), 0};
  return walk((struct mb_slice){(const uint8_t *)key, strlen(key)}, &c, MB_FFI, NULL);
}

int main(void) {
  CHECK(is_known((struct mb_slice){(const uint8_t *)"known", 5}, MB_FFI));
  CHECK(walk_of("known") == MBLOB_OK);
  CHECK(walk_of("unknown") == MBLOB_E_FORMAT);
  CHECK(strcmp(mblob_last_error_info()->code, "payload") == 0);
  CHECK(strstr(mblob_last_error(), "a field of an unknown type"));
  return 0;
}
