/* patched_copy.h - libraries that leave names of the runtime undefined, bound without a global symbol.
 *
 * The dynamic linker looks for an undefined symbol in the global scope, where another runtime
 * may offer the same name, and where ours must not. So it is given a sealed memory file in place
 * of the library, a copy in which these symbols are no longer undefined: a local, absolute one
 * is taken as it is, without a search, by every kind of relocation, before any constructor runs
 * (glibc 2.28 and later). */
#ifndef MB_LINK_COPY_H
#define MB_LINK_COPY_H

#include "core/loaded/loaded.h"

/* Make the copy if the library needs one, with library->drops_runtime in any case:
 * library->copy_fd, -1 if it needs none. `folder`: what $ORIGIN in its search paths and in
 * DT_NEEDED stands for, NULL if that needs no care. */
int mb_link_copy(struct mb_library *library, const char *folder);

/* True if a name in DT_NEEDED is a library of TVM's, whose place this runtime takes. */
bool mb_link_is_runtime(const char *name);

/* After loading: put the file itself over all of its copy that is read-only and unchanged. Code
 * and blob are then shared with other processes, profilers see the file's name, and of the blob
 * there never was a copy. */
int mb_link_copy_give_back(const struct mb_library *library);

/* Write into the copy `fd` a program header table with one more segment, and in it the search
 * paths and needed libraries with `folder` for $ORIGIN (copy_origin.c). Other bytes of the file
 * stay where they are. */
int mb_link_expand_origin(const struct mb_library *library, int fd, const char *folder);

/* All of `size` bytes to their place; an error names the memory file. */
int mb_link_write(int fd, const void *data, uint64_t size, uint64_t offset);

#endif
