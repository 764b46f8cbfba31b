// In the style of the deployment guide of 0.5 to 0.7: graph, parameters and library in three files, the
// executor by tvm.graph_runtime.create. Arguments: the library, the graph's JSON, the parameters.
#include <dlpack/dlpack.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <algorithm>
#include <fstream>
#include <iterator>

int main(int, char **argv) {
  tvm::runtime::Module mod_syslib = tvm::runtime::Module::LoadFromFile(argv[1]);

  std::ifstream json_in(argv[2], std::ios::in);
  std::string json_data((std::istreambuf_iterator<char>(json_in)),
                        std::istreambuf_iterator<char>());
  json_in.close();

  std::ifstream params_in(argv[3], std::ios::binary);
  std::string params_data((std::istreambuf_iterator<char>(params_in)),
                          std::istreambuf_iterator<char>());
  params_in.close();
  TVMByteArray params_arr;
  params_arr.data = params_data.c_str();
  params_arr.size = params_data.length();

  int dtype_code = kDLFloat, dtype_bits = 32, dtype_lanes = 1, device_type = kDLCPU, device_id = 0;
  tvm::runtime::Module mod = (*tvm::runtime::Registry::Get("tvm.graph_runtime.create"))(
      json_data, mod_syslib, device_type, device_id);

  DLTensor *x;
  int in_ndim = 2;
  int64_t in_shape[2] = {2, 3};
  TVMArrayAlloc(in_shape, in_ndim, dtype_code, dtype_bits, dtype_lanes, device_type, device_id, &x);
  for (int i = 0; i < 6; ++i) static_cast<float *>(x->data)[i] = i;

  tvm::runtime::PackedFunc set_input = mod.GetFunction("set_input");
  set_input("x", x);
  tvm::runtime::PackedFunc load_params = mod.GetFunction("load_params");
  load_params(params_arr);
  tvm::runtime::PackedFunc run = mod.GetFunction("run");
  run();

  DLTensor *y;
  TVMArrayAlloc(in_shape, in_ndim, dtype_code, dtype_bits, dtype_lanes, device_type, device_id, &y);
  tvm::runtime::PackedFunc get_output = mod.GetFunction("get_output");
  get_output(0, y);

  auto y_iter = static_cast<float *>(y->data);
  auto max_iter = std::max_element(y_iter, y_iter + 6);
  std::cout << "The maximum is " << *max_iter << " at " << std::distance(y_iter, max_iter)
            << std::endl;
  TVMArrayFree(x);
  TVMArrayFree(y);
  return 0;
}
