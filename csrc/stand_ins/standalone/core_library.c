/* For core/library/load.c: no file is opened. */
#include "core/library/library.h"

int mb_library_load(struct mb_library *library, const mblob_open_options *options,
                    mblob_module **out) {
  (void)library, (void)options, (void)out;
  return mb_fail(MBLOB_E_INCOMPATIBLE, "the runtime of a standalone library opens no files");
}
int mb_library_add_tree(struct mb_library *library, const mblob_open_options *options,
                        mblob_module **out) {
  return mb_library_load(library, options, out);
}
