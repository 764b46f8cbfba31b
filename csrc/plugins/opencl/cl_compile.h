/* cl_compile.h - a part of a payload as a program of the driver, compiled or refused with the
 * compiler's words. */
#ifndef MB_CL_COMPILE_H
#define MB_CL_COMPILE_H

#include "cl_device.h"
#include "cl_payload.h"

/* An option for source: keeps what cl_signature.c asks for. */
#define MB_CL_TELLS_ARGUMENTS "-cl-kernel-arg-info"
/* Options that the user gives to the compiler, "" without. */
const char *mb_cl_options(void);
/* A program that is not compiled yet; the caller's. */
int mb_cl_create(enum mb_cl_form form, const struct mb_cl_part *part,
                 const struct mb_cl_device *device, cl_program *out);
int mb_cl_from_binary(const uint8_t *data, size_t size, const struct mb_cl_device *device,
                      cl_program *out);
cl_int mb_cl_compile(enum mb_cl_form form, cl_program program, const struct mb_cl_device *device);
/* Record why that failed, with the first errors of the log; `kernel`: for whom. */
int mb_cl_fail_build(const char *kernel, const struct mb_cl_device *device, cl_program program,
                     cl_int code);
/* True if the compiler refuses source with `more` text behind it. Records nothing; false if the
 * compiler cannot be asked. */
bool mb_cl_is_refused_with(const struct mb_cl_part *part, const char *more,
                           const struct mb_cl_device *device);

#endif
