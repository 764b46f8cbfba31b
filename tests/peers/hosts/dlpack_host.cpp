// In the style of hosts that pass their own memory by DLPack. Argument: the kernel's library.
#include <dlpack/dlpack.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>

#include <iostream>
#include <memory>
#include <vector>

struct Owner {
  std::vector<float> values;
  std::vector<int64_t> shape;
  DLManagedTensor managed;
};

static int alive = 0;

static DLManagedTensor *Export(std::vector<float> values) {
  auto *owner = new Owner{std::move(values), {}, {}};
  owner->shape = {static_cast<int64_t>(owner->values.size())};
  owner->managed.dl_tensor = {owner->values.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1},
                              owner->shape.data(),  nullptr,     0};
  owner->managed.manager_ctx = owner;
  owner->managed.deleter = [](DLManagedTensor *self) {
    --alive;
    delete static_cast<Owner *>(self->manager_ctx);
  };
  ++alive;
  return &owner->managed;
}

int main(int, char **argv) {
  using namespace tvm::runtime;
  {
    PackedFunc addone = Module::LoadFromFile(argv[1]).GetFunction("addone");
    NDArray x = NDArray::FromDLPack(Export({1, 2, 3, 4}));
    NDArray y = NDArray::FromDLPack(Export({0, 0, 0, 0}));
    NDArray rows = y.CreateView({2, 2}, x->dtype);
    addone(x, y);
    DLManagedTensor *back = rows.ToDLPack();
    for (int i = 0; i < 4; ++i) std::cout << static_cast<float *>(back->dl_tensor.data)[i] << ' ';
    std::cout << back->dl_tensor.ndim << ' ' << alive << ' ';
    back->deleter(back);
  }
  std::cout << alive;
}
