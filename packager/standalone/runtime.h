/* The functions of the runtime that the interface of a standalone library calls. It is a part of two C files that
 * mblob makes: of the interface, which is another in each library, and of the runtime. */
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* An input or output: name, element type as DLPack has it, shape. */
struct mblob_alone_value {
  const char *name;
  uint8_t code, bits;
  uint16_t lanes;
  int32_t ndim;
  const int64_t *shape;
};

enum mblob_alone_kind {
  MBLOB_ALONE_GRAPH,
  MBLOB_ALONE_AOT,
  MBLOB_ALONE_RELAY,
  MBLOB_ALONE_RELAX,
  MBLOB_ALONE_FUNCTION
};

/* Where an argument of a function is from: it is the next input, the next output, or a tensor of the
 * file. */
enum mblob_alone_place { MBLOB_ALONE_INPUT, MBLOB_ALONE_OUTPUT, MBLOB_ALONE_STORED };

struct mblob_alone {
  enum mblob_alone_kind kind;
  int32_t is_compiled_by_tvm; /* functions that no table lists are packed */
  const char *blob;           /* its symbol */
  uint32_t module;            /* the number of the model's module */
  const char *name;           /* of the model, or of a function */
  uint32_t input_count, output_count, argument_count;
  const struct mblob_alone_value *inputs, *outputs;
  const uint8_t *arguments;  /* of a function: enum mblob_alone_place of each */
  const char *const *stored; /* names of the tensors that are arguments, in their order */
};

struct mblob_alone_model;
int32_t mblob_alone_open(const struct mblob_alone *library, struct mblob_alone_model **model);
int32_t mblob_alone_run(struct mblob_alone_model *model, const void *const *inputs,
                        void *const *outputs);
void mblob_alone_close(struct mblob_alone_model *model);
const char *mblob_alone_error(void);

#pragma GCC visibility pop
