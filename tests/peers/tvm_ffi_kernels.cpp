// Kernels in the style of those that tvm_ffi's own tests compile, over the headers of apache-tvm-ffi.
#define TVM_FFI_DLL_EXPORT_INCLUDE_METADATA 1
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

namespace ffi = tvm::ffi;

static void fill(const ffi::TensorView &x, const ffi::TensorView &y, float step) {
  if (x.ndim() != 1 || y.ndim() != 1 || x.size(0) != y.size(0))
    TVM_FFI_THROW(ValueError) << "expected two vectors of one size";
  const float *from = static_cast<const float *>(x.data_ptr());
  float *to = static_cast<float *>(y.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i) to[i] = from[i] + step;
}

static void add_one(ffi::TensorView x, ffi::TensorView y) { fill(x, y, 1); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, add_one);
TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(add_one, "Writes x + 1 to y.");

static ffi::Tensor return_add_one(ffi::TensorView x) {
  ffi::Tensor made =
      ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  fill(x, made, 1);
  return made;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(return_add_one, return_add_one);

static int64_t sum(ffi::Array<int64_t> row) {
  int64_t all = 0;
  for (int64_t item : row) all += item;
  return all;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(sum, sum);

/* ---- containers: each function gives back what it gets ------------------------------------------ */

using AnyMap = ffi::Map<ffi::Any, ffi::Any>;

static AnyMap id_map(AnyMap map) { return map; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(id_map, id_map);
static ffi::Dict<ffi::Any, ffi::Any> id_dict(ffi::Dict<ffi::Any, ffi::Any> dict) { return dict; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(id_dict, id_dict);
static ffi::List<int64_t> id_list_int(ffi::List<int64_t> list) { return list; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(id_list_int, id_list_int);
static ffi::Map<ffi::String, int64_t> id_map_str_int(ffi::Map<ffi::String, int64_t> map) {
  return map;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(id_map_str_int, id_map_str_int);
static ffi::Dict<ffi::String, int64_t> id_dict_str_int(ffi::Dict<ffi::String, int64_t> dict) {
  return dict;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(id_dict_str_int, id_dict_str_int);

static ffi::Any find(AnyMap map, ffi::Any key) {
  auto found = map.Get(key);
  return found.has_value() ? *found : ffi::Any("missing");
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(find, find);

/* A Map that the library changes in place, as nobody else has it. */
static AnyMap kept;
static void keep(AnyMap map) { kept = map; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(keep, keep);
static AnyMap kept_set(ffi::Any key, ffi::Any value) {
  kept.Set(key, value);
  return kept;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(kept_set, kept_set);
static AnyMap kept_erase(ffi::Any key) {
  kept.erase(key);
  return kept;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(kept_erase, kept_erase);

/* ---- code at an address ------------------------------------------------------------------------ */

static int add_one_code(void *, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  if (count != 1 || args[0].type_index != kTVMFFIInt) TVM_FFI_THROW(TypeError) << "expected an int";
  result->type_index = kTVMFFIInt;
  result->v_int64 = args[0].v_int64 + 1;
  TVM_FFI_SAFE_CALL_END();
}

static void mlir_add_one_code(void **args) {
  *static_cast<int *>(args[4]) =
      add_one_code(*static_cast<void **>(args[0]), *static_cast<const TVMFFIAny **>(args[1]),
                   *static_cast<int32_t *>(args[2]), *static_cast<TVMFFIAny **>(args[3]));
}

static void *code_of(ffi::String name) {
  return name == "mlir_add_one" ? reinterpret_cast<void *>(mlir_add_one_code)
                                : reinterpret_cast<void *>(add_one_code);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(code_of, code_of);

/* ---- element types ------------------------------------------------------------------------------ */

static ffi::String dtype_text(DLDataType dtype) { return ffi::DLDataTypeToString(dtype); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(dtype_text, dtype_text);
static DLDataType dtype_of(ffi::String text) { return ffi::StringToDLDataType(text); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(dtype_of, dtype_of);

/* ---- a class ------------------------------------------------------------------------------------ */

class PointObj : public ffi::Object {
 public:
  int64_t x;
  ffi::Optional<ffi::String> label;
  ffi::Map<ffi::String, ffi::Array<int64_t>> rows;
  explicit PointObj(int64_t x) : x(x) {}
  int64_t sum(int64_t y) const { return x + y; }
  ffi::Array<int64_t> append(ffi::Array<int64_t> row, int64_t last) const {
    row.push_back(last);
    return row;
  }
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("peers.Point", PointObj, ffi::Object);
};

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<PointObj>()
      .def(refl::init<int64_t>())
      .def_ro("x", &PointObj::x, "A coordinate.",
              refl::Metadata{{"bool_attr", true}, {"int_attr", 1}, {"str_attr", "hello"}})
      .def_ro("label", &PointObj::label)
      .def_ro("rows", &PointObj::rows)
      .def("sum", &PointObj::sum, "Adds y.", refl::Metadata{{"bool_attr", true}})
      .def("append", &PointObj::append);
  refl::GlobalDef().def("peers.twice", [](int64_t x) { return 2 * x; });
  refl::GlobalDef().def_method("peers.PointSum", &PointObj::sum);
}
