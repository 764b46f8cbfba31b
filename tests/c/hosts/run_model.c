/* run_model LIBRARY INPUT TYPE TYPE_OF_OUTPUT <in >out: one run of a model, raw data. Also valid
 * C++17. */
#include <mblob.h>
#include <stdio.h>

static char in[1 << 20], out[1 << 20];

int main(int argc, char **argv) {
  mblob_module *library = NULL, *model = NULL;
  if (argc != 5 || !fread(in, 1, sizeof(in), stdin)) return 2;
  int status = mblob_open(argv[1], NULL, &library);
  if (!status) status = mblob_executor_create(library, "default", kDLCPU, 0, &model);
  mblob_module_release(library);
  if (!status) status = mblob_executor_set_input(model, argv[2], argv[3], in);
  if (!status) status = mblob_executor_run(model);
  if (!status) status = mblob_executor_get_output(model, 0, argv[4], out);
  if (status) fprintf(stderr, "%s\n", mblob_last_error());
  if (!status) fwrite(out, 1, sizeof(out), stdout);
  mblob_module_release(model);
  return status != 0;
}
