"""Names of the ffi dialect, as of tvm-ffi 0.1 (spec of the symbols that a library exports)."""

FFI_PREFIX = "__tvm_ffi_"  # of a function's symbol from TVM 0.22 on
