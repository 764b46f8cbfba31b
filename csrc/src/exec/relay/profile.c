/* The time that a program takes: per instruction, and so per call of a kernel. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "exec/relay/machine.h"

static void clear_profile(struct vm_profile *profile) {
  free(profile->timings);
  free(profile->first);
}

static int prepare_profile(const struct vm_executable *exec, struct vm_profile *profile) {
  size_t count = 0;
  profile->first = calloc(exec->function_count + 1, sizeof(*profile->first));
  for (size_t i = 0; profile->first && i < exec->function_count; i++) {
    profile->first[i] = count;
    count += exec->functions[i].code_count; /* each is in memory already */
  }
  profile->timings = calloc(count + 1, sizeof(*profile->timings));
  if (profile->first && profile->timings) return MBLOB_OK;
  clear_profile(profile);
  return mb_fail_memory(count * sizeof(*profile->timings));
}

int vm_profile_step(struct vm_machine *m, int (*step)(struct vm_machine *m)) {
  const struct vm_frame *frame = &m->frames[m->frame_count - 1];
  size_t function = (size_t)(frame->function - m->exec->functions);
  struct vm_timing *timing = &m->profile->timings[m->profile->first[function] + frame->pc];
  double start = mb_seconds_now();
  int status = step(m);
  timing->seconds += mb_seconds_now() - start;
  timing->count++;
  return status;
}

static void put_vm_row(FILE *out, const struct vm_executable *exec, const struct vm_function *f,
                       size_t pc, const struct vm_timing *timing, int64_t repeat) {
  const struct vm_instruction *instruction = &f->code[pc];
  (void)fputs("{\"function\": ", out);
  mb_json_put_text(out, f->name);
  (void)fprintf(out, ", \"instruction\": %zu, \"opcode\": ", pc);
  mb_json_put_text(out, vm_opcodes[instruction->opcode].name);
  (void)fputs(", \"kernel\": ", out);
  if (instruction->opcode == VM_INVOKE_PACKED)
    mb_json_put_text(out, exec->primitives.names[f->fields[instruction->fields]]);
  else
    (void)fputs("null", out);
  (void)fprintf(out, ", \"count\": %llu, \"seconds\": %.9g}", (unsigned long long)timing->count,
                timing->seconds / (double)repeat);
}

/* [{"function", "instruction", "opcode", "kernel" (or null), "count" (executions in all runs),
 * "seconds" (of one run, mean)}], of all instructions that were executed, in order of the
 * program. */
static int return_vm_rows(const struct vm_executable *exec, const struct vm_profile *profile,
                          int64_t repeat, struct mb_call *call) {
  char *text = NULL;
  size_t size = 0;
  const char *comma = "";
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(0);
  (void)fputc('[', out);
  for (size_t i = 0; i < exec->function_count; i++)
    for (size_t pc = 0; pc < exec->functions[i].code_count; pc++) {
      const struct vm_timing *timing = &profile->timings[profile->first[i] + pc];
      if (!timing->count) continue;
      (void)fputs(comma, out);
      put_vm_row(out, exec, &exec->functions[i], pc, timing, repeat);
      comma = ", ";
    }
  (void)fputc(']', out);
  return mb_call_return_stream(call, out, &text, &size);
}

int vm_profile_run(struct vm_machine *m, size_t function, int64_t repeat, struct mb_call *call) {
  struct vm_profile profile = {0};
  int status = prepare_profile(m->exec, &profile);
  if (status) return status;
  m->profile = &profile;
  for (int64_t i = 0; !status && i < repeat; i++) status = vm_run_kept(m, function);
  m->profile = NULL;
  if (!status) status = return_vm_rows(m->exec, &profile, repeat, call);
  clear_profile(&profile);
  return status;
}
