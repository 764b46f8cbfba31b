# How libmblob is built, whoever builds it: csrc/Makefile, tests/c/Makefile, and setup.py, which has no make and
# reads the lines `NAME := value` itself. One line each, no references to other variables but $(SONAME).
SONAME := libmblob.so.0
# _FILE_OFFSET_BITS: files above 2 GiB, and folders whose inodes have 64 bits, on 32-bit machines.
COMPILE := -std=gnu11 -D_FILE_OFFSET_BITS=64 -fPIC -fvisibility=hidden -pthread -DMBLOB_HOST
# nodelete: threads free their memory through keys whose destructors are here, however late they end.
# noseparate-code: two pages less of padding.
LINK := -pthread -Wl,-soname,$(SONAME) -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,nodelete -Wl,-z,noexecstack -Wl,-z,noseparate-code
# Files of src/ in which calls, runs and checksums spend their time; the others are compiled for size (-Os in place of -O2).
FAST := function.c thread_pool.c crc32.c sha256.c workspace.c backend.c environment.c return_value.c map.c graph/run.c graph/parallel.c vm/interpreter.c bytes.c float16.c
# Files of src/ that only read: no code of others ever runs below them (no kernel, plug-in, callback or release), so nothing unwinds
# through them, and they have no tables for that. A C++ exception of a callback passes through all others.
READERS := locks.c task_errors.c graph/ends.c argument.c bytes.c stream.c graph/text_place.c vm/locate.c link_copy.c link_origin.c map.c source_file.c byte_order.c executor/names.c device/names.c blob.c crc32.c dtype.c elf_dynamic.c elf_file.c elf_hash.c elf_notes.c elf_relocations.c elf_versions.c error.c float16.c index.c json.c json_text.c payload_grammar.c safetensors.c sha256.c thread_settings.c tree.c executor/parameter_bytes.c graph/graph.c graph/graph_text.c graph/schedule.c vm/code.c vm/listing.c vm/opcodes.c vm/reader.c vm/storage.c function_table.c host_symbols.c modules.c ndarray.c pages.c whole_file.c
LDLIBS := -ldl
# Plug-ins: plugins/NAME/*.c, plugins/common/*.c and these files of src/ make libmblob-NAME.so. They link no libmblob.
PLUGIN_SHARED := bytes.c json.c locks.c map.c sha256.c whole_file.c
PLUGIN_LINK := -pthread -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,nodelete -Wl,-z,noexecstack
