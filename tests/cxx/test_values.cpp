// Values, types, texts and checks of the C++ face.
#include <limits>
#include <unordered_map>
#include <vector>

#include "test_face.h"

using namespace tvm::runtime;

namespace {

// What a function sees of one argument.
template <typename T>
TVMRetValue Echo(const T &value) {
  static const PackedFunc echo([](TVMArgs args, TVMRetValue *rv) { *rv = args[0]; });
  return echo(value);
}

enum Color { kRed = 1, kBlue = 7 };

void NumbersKeepTheirValue() {
  REQUIRE(Echo(7).operator int() == 7 && Echo(7).type_code() == kTVMArgInt);
  REQUIRE(Echo(int64_t{1} << 40).operator int64_t() == int64_t{1} << 40);
  REQUIRE(Echo(size_t{5}).operator uint64_t() == 5);
  REQUIRE(Echo(uint8_t{255}).operator int() == 255 && Echo('a').operator int() == 97);
  REQUIRE(Echo(true).operator bool() && !Echo(false).operator bool());
  REQUIRE(Echo(2.5).operator double() == 2.5 && Echo(2.5f).operator double() == 2.5);
  REQUIRE(Echo(3).operator double() == 3.0);
  REQUIRE(Echo(kBlue).operator int() == 7);
  REQUIRE(Has(Thrown([] { (void)Echo(int64_t{1} << 40).operator int(); }), "does not fit"));
  REQUIRE(Has(Thrown([] { Echo(std::numeric_limits<uint64_t>::max()); }),
              "the integer 18446744073709551615 is above"));
  REQUIRE(Thrown([] { (void)Echo("x").operator int(); }) == "expected int, found str");
  REQUIRE(Thrown([] { (void)Echo(1).operator std::string(); }) == "expected str, found int");
  REQUIRE(Thrown([] { (void)Echo("x").operator double(); }) == "expected float, found str");
  REQUIRE(Thrown([] { (void)Echo(1).operator Module(); }) == "expected Module, found int");
}

void TextsAreCopied() {
  std::string text = Echo(std::string("hello"));
  REQUIRE(text == "hello" && Echo("literal").operator std::string() == "literal");
  const std::string binary("a\0b", 3);
  const TVMByteArray bytes{binary.data(), binary.size()};
  REQUIRE(Echo(bytes).type_code() == kTVMBytes && Echo(bytes).operator std::string() == binary);
  // A String with a zero byte goes as bytes, so that nothing is cut off; others are text.
  REQUIRE(Echo(String(binary)).type_code() == kTVMBytes &&
          Echo(String(binary)).operator std::string() == binary);
  REQUIRE(Echo(String("text")).type_code() == kTVMStr &&
          Echo(String("text")).operator String() == "text");
  TVMRetValue a = Echo("first"), b = a, c;
  c = std::move(a);
  b = Echo("second");
  REQUIRE(c.operator std::string() == "first" && b.operator std::string() == "second");
  c = String(binary);
  TVMRetValue d(std::move(c));
  REQUIRE(d.operator std::string() == binary);
}

void TypesAndDevicesPass() {
  const DLDataType float16{kDLFloat, 16, 1};
  REQUIRE(TypeEqual(Echo(float16), float16));
  REQUIRE(Echo(DataType::Int(8, 4)).operator std::string() == "int8x4");
  REQUIRE(Echo("bfloat16").operator DataType() == DataType::BFloat(16));
  const DLDevice device = Echo(DLDevice{kDLOpenCL, 3});
  REQUIRE(device.device_type == kDLOpenCL && device.device_id == 3);
  REQUIRE(Echo(nullptr).type_code() == kTVMNullptr && !Echo(nullptr).operator NDArray().defined());
  int something = 0;
  REQUIRE(Echo(static_cast<void *>(&something)).operator void *() == &something);
  REQUIRE(Echo(nullptr).operator void *() == nullptr &&
          Echo(nullptr).operator DLTensor *() == nullptr);
}

void TypeNamesRoundTrip() {
  for (const char *name : {"int8", "uint16", "int32", "float64", "bfloat16", "int8x4", "float32x16",
                           "bool", "handle", "", "complex64", "uint1x8", "float8_e3m4",
                           "float8_e4m3fnx2", "e5m2_float8", "float4_e2m1fn"})
    REQUIRE(DLDataType2String(String2DLDataType(name)) == name);
  REQUIRE(DLDataType2String({200, 8, 1}) == "custom[200]8" &&
          DLDataType2String({10, 4, 2}) == "custom[10]4x2");
  REQUIRE(TypeMatch(String2DLDataType("float"), kDLFloat, 32) &&
          TypeMatch(String2DLDataType("int"), kDLInt, 32));
  REQUIRE(GetVectorBytes(String2DLDataType("float32x4")) == 16 && DataType::Bool().bytes() == 1);
  for (const char *name :
       {"flaot32", "float32x", "float32x0", "int0", "int999", "int8x70000", "32", "float32 ", "x4"})
    REQUIRE(Has(Thrown([name] { String2DLDataType(name); }), "is no data type"));
  REQUIRE(DataType::Float(32).with_lanes(4).element_of() == DataType::Float(32) &&
          DataType().is_void());
}

void StringsAndShapesAreValues() {
  const String a = "abc", b = std::string("abd");
  REQUIRE(a != b && a < b && a == "abc" && "abc" == a && a == std::string("abc") &&
          a + "d" == "abcd");
  REQUIRE(a.size() == 3 && !a.empty() && String().empty() && a.compare(b) < 0 && a.at(1) == 'b');
  std::unordered_map<String, int> map{{a, 1}};
  REQUIRE(map.at("abc") == 1);
  const ShapeTuple shape{2, 3, 4};
  REQUIRE(shape.size() == 3 && shape[1] == 3 && shape.back() == 4 && shape.Product() == 24);
  REQUIRE((shape == ShapeTuple(std::vector<int64_t>{2, 3, 4})));
  const std::vector<int64_t> extents = shape;
  REQUIRE(extents[2] == 4 && ShapeTuple().Product() == 1);
  REQUIRE(Has(Thrown([&] { (void)shape[3]; }), "index 3 of 3"));
}

void ChecksSayWhatFailed() {
  CHECK(true) << "never evaluated";
  if (true)
    CHECK_EQ(1, 1U);
  else
    CHECK(false);
  REQUIRE(Has(Thrown([] { CHECK(1 > 2) << "because " << 3; }),
              "Check failed: (1 > 2) is false: because 3"));
  REQUIRE(
      Has(Thrown([] { ICHECK_EQ(2 + 2, 5) << "!"; }), "Check failed: 2 + 2 == 5 (4 vs. 5) : !"));
  REQUIRE(Has(Thrown([] { CHECK_LT(2, 1); }), "2 < 1 (2 vs. 1)"));
  REQUIRE(Has(Thrown([] { LOG(FATAL) << "no way"; }), "InternalError: no way"));
  try {
    LOG(FATAL) << "no way";
  } catch (const InternalError &error) {
    REQUIRE(error.message() == "no way" && error.lineno() == __LINE__ - 2 &&
            Has(error.file(), "test_values.cpp"));
  }
  int *none = nullptr;
  REQUIRE(Has(Thrown([&] { ICHECK_NOTNULL(none); }), "none is null"));
  LOG(INFO) << "a line " << 1;
  LOG_IF(WARNING, false) << "not shown";
  VLOG(2) << "not shown";
  DLOG(INFO) << "not shown";
}

void ArgumentsCanBeSetOneByOne() {
  std::vector<TVMValue> values(3);
  std::vector<int> codes(3);
  const TVMArgsSetter setter(values.data(), codes.data());
  const std::string b = "b";  // texts live until the call
  const String c = "c";
  setter(0, "a");
  setter(1, b);
  setter(2, c);
  const PackedFunc join = *Registry::Get("second.concat");
  TVMRetValue rv;
  join.CallPacked(TVMArgs(values.data(), codes.data(), 3), &rv);
  REQUIRE(rv.operator std::string() == "abc");
  join.CallPacked(TVMArgs(values.data(), codes.data(), 2), nullptr);
  const TVMArgs args(values.data(), codes.data(), 1);
  REQUIRE(args.At<std::string>(0) == "a" &&
          Has(Thrown([&] { (void)args[1]; }), "argument 1 is missing"));
}

}  // namespace

void TestValues() {
  NumbersKeepTheirValue();
  TextsAreCopied();
  TypesAndDevicesPass();
  TypeNamesRoundTrip();
  StringsAndShapesAreValues();
  ChecksSayWhatFailed();
  ArgumentsCanBeSetOneByOne();
}
