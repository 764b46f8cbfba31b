/* The time that a program takes: per instruction, and so per call of a kernel. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "exec/relax/machine.h"

static void put_relax_row(FILE *out, const struct relax_executable *exec,
                          const struct relax_function *f, size_t pc,
                          const struct relax_timing *timing, int64_t repeat) {
  const struct relax_instruction *in = &exec->code[pc];
  const char *name = relax_opcode_name(in->opcode);
  (void)fputs("{\"function\": ", out);
  mb_json_put_text(out, f->name);
  (void)fprintf(out, ", \"instruction\": %zu, \"opcode\": \"%c%s\", \"kernel\": ", pc - f->start,
                name[0] & ~0x20, name + 1); /* with a large letter, as in rows of Relay */
  if (in->opcode == RELAX_CALL)
    mb_json_put_text(out, exec->functions[in->target].name);
  else
    (void)fputs("null", out);
  (void)fprintf(out, ", \"count\": %llu, \"seconds\": %.9g}", (unsigned long long)timing->count,
                timing->seconds / (double)repeat);
}

/* Rows as of Relay's machine: of all instructions that were executed, in order of the program. */
static int return_relax_rows(const struct relax_executable *exec,
                             const struct relax_profile *profile, int64_t repeat,
                             struct mb_call *call) {
  char *text = NULL;
  size_t size = 0;
  const char *comma = "";
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(0);
  (void)fputc('[', out);
  for (size_t i = 0; i < exec->function_count; i++)
    for (size_t pc = exec->functions[i].start; pc < exec->functions[i].end; pc++) {
      if (!profile->timings[pc].count) continue;
      (void)fputs(comma, out);
      put_relax_row(out, exec, &exec->functions[i], pc, &profile->timings[pc], repeat);
      comma = ", ";
    }
  (void)fputc(']', out);
  return mb_call_return_stream(call, out, &text, &size);
}

/* (function, repeat = 1) on the inputs that were set. The first run is not counted. */
int relax_profile_run(struct relax_machine *m, struct mb_call *call) {
  struct relax_profile profile = {calloc(m->exec->code_count + 1, sizeof(*profile.timings))};
  struct relax_value result = {.code = kTVMNullptr};
  const char *name = NULL;
  int64_t repeat = 1;
  mblob_function *invoke = NULL;
  int status = profile.timings ? MBLOB_OK : mb_fail_memory(m->exec->code_count);
  if (!status) status = relax_name(call, 0, &name);
  if (!status && call->count > 1) status = relax_int(call, 1, &repeat);
  if (!status && repeat < 1)
    status = mb_fail(MBLOB_E_ARGUMENT, "repeat %lld, expected at least 1", (long long)repeat);
  if (!status) status = mb_module_need(m->self, "invoke_stateful", MB_ITSELF, &invoke);
  for (int64_t i = 0; !status && i <= repeat; i++) {
    m->profile = i ? &profile : NULL;
    status = relax_call_function(invoke, false, call->args, call->codes, 1, &result);
  }
  m->profile = NULL;
  mblob_function_release(invoke);
  if (!status) status = return_relax_rows(m->exec, &profile, repeat, call);
  free(profile.timings);
  return status;
}
