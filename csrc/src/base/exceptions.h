/* exceptions.h - exceptions (C++, Rust) that leave code of others end as failures of the call, not of the
 * process. Such code is called so:
 *
 *     MB_CATCHES;
 *     int rc = code(...);
 *
 * From MB_CATCHES on, the frame has mb_catch as its personality routine: the unwinder asks it, as it
 * asks that of a C++ function with a `catch`, and goes no further. The frame resumes as if the call
 * had returned MB_THROWN. Calls that throw nothing cost nothing more, and no C++ is linked.
 *
 * The frame must do something after the call: a tail call has no frame. */
#ifndef MB_EXCEPTIONS_H
#define MB_EXCEPTIONS_H

/* Where the first register that a handler gets is the one of results, and unwinding goes by DWARF's
 * tables. Elsewhere, and with MBLOB_PROFILE_MINIMAL, an exception ends the process. */
#if defined(__GCC_HAVE_DWARF2_CFI_ASM) && !defined(MBLOB_PROFILE_MINIMAL) &&                 \
    (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__riscv) || \
     defined(__powerpc64__) || defined(__loongarch__))
#define MB_CAN_CATCH 1
/* 0x1b: an offset of 4 bytes from the table to the routine. */
#define MB_CATCHES __asm__ volatile(".cfi_personality 0x1b, mb_catch")
#else
#define MB_CAN_CATCH 0
#define MB_CATCHES ((void)0)
#endif

#define MB_THROWN (-0x7E120E2D) /* what no code returns on purpose */

/* "WHAT: the code threw std::out_of_range: x is too large", of this thread's last call that returned
 * MB_THROWN. The caller frees it. NULL if `rc` is another number. */
char *mb_thrown(int rc, const char *what);

#endif
