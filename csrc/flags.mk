# How libmblob is built, whoever builds it: csrc/Makefile, tests/c/Makefile, and setup.py and csrc/CMakeLists.txt, which
# have no make and read the lines `NAME := value` themselves. One line each, no references to other variables but $(SONAME).
SONAME := libmblob.so.0
# _FILE_OFFSET_BITS: files above 2 GiB, and folders whose inodes have 64 bits, on 32-bit machines.
COMPILE := -std=gnu11 -D_FILE_OFFSET_BITS=64 -fPIC -fvisibility=hidden -pthread -DMBLOB_HOST
# nodelete: threads free their memory through keys whose destructors are here, however late they end.
# noseparate-code: two pages less of padding.
LINK := -pthread -Wl,-soname,$(SONAME) -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,nodelete -Wl,-z,noexecstack -Wl,-z,noseparate-code
# Files of src/ in which calls, runs and checksums spend their time; the others are compiled for size (SMALL in place of -O2).
FAST := core/call/function.c core/library/prepared.c core/threads/thread_pool.c base/crc32.c base/sha256.c core/device/workspace.c host_abi/backend.c core/library/environment.c core/call/return_value.c base/hash_map.c exec/graph/run.c exec/relay/interpreter.c base/bytes.c base/float16.c base/block_cache.c core/device/array.c core/call/object.c exec/common/storage.c exec/relax/interpreter.c exec/relax/values.c exec/relax/frames.c exec/relax/memory.c
# Tables of jumps, and a test copied to each way that leads to it, save time in loops that these files do not have; they
# cost 2 kB. clang knows no -fexpensive-optimizations, and would say so for each file.
SMALL := -Os -fno-jump-tables -fno-expensive-optimizations -Wno-ignored-optimization-argument
# Files of src/ that only read: no code of others ever runs below them (no kernel, plug-in, callback or release), so nothing unwinds
# through them, and they have no tables for that. (Functions of loaders that measure payloads do run below format/: what they throw
# is caught where they are called.)
READERS := base/block_cache.c core/library/call_text.c exec/graph/ready_queue.c core/plugin/table.c base/tensor_check.c base/profile.c base/locks.c exec/graph/inputs_outputs.c core/call/argument.c base/bytes.c format/stream_classic.c exec/relay/locate.c exec/relay/move_constants.c core/link/runtime_lookups.c core/link/patched_copy.c core/link/copy_origin.c core/link/unload.c core/link/process_state.c base/hash_map.c base/source_file.c base/byte_order.c exec/common/names.c format/blob.c base/crc32.c base/dtype.c elf/dynamic.c elf/elf.c elf/hash.c elf/notes.c elf/relocations.c elf/versions.c base/error.c base/float16.c format/index.c base/json.c format/payload_grammar.c format/safetensors.c base/sha256.c core/threads/thread_settings.c format/tree.c exec/common/parameter_bytes.c exec/graph/checked_graph.c exec/graph/graph_text.c exec/graph/schedule.c exec/relay/code.c exec/relay/listing.c exec/relay/opcodes.c exec/relay/reader.c exec/common/storage.c exec/relax/annotations.c exec/relax/arguments.c exec/relax/checks.c exec/relax/listing.c exec/relax/parameter_check.c exec/relax/reader.c format/function_table.c entry/host_symbols.c entry/open_readonly.c elf/slots.c format/stream_ffi.c format/ndarray.c base/atomic_file.c core/library/data_modules.c core/link/ffi_library.c core/link/system_symbols.c core/plugin/loader_registry.c core/library/created.c exec/contrib/elements.c exec/contrib/random.c exec/contrib/sort.c
LDLIBS := -ldl
# Two tables of what can be run, of which a library has one: libmblob.so and libmblob.a that of all files but CORE_TABLE, and
# libmblob-core.a, for programs without executors, that of all but FULL_TABLE and what is below exec/.
CORE_TABLE := entry/profile_core.c
FULL_TABLE := entry/profile_full.c
# Plug-ins: the files below plugins/NAME and plugins/common, and these files of src/ make libmblob-NAME.so. They link no libmblob.
PLUGIN_SHARED := base/block_cache.c base/bytes.c base/deferred_destroy.c base/json.c base/locks.c base/hash_map.c base/sha256.c base/exceptions.c base/atomic_file.c base/dtype.c
PLUGIN_LINK := -pthread -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,nodelete -Wl,-z,noexecstack
# libmblob-ffi.a: those of plugins/ffi and plugins/common, compiled with these words more, from the folder of this file.
STATIC_NAMES := -include plugins/common/static_names.h
