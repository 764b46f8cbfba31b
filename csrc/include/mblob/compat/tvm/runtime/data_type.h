/* data_type.h - DataType: a DLDataType with names, and its text form ("float32", "int8x4",
 * "bool", "handle").
 */
#ifndef TVM_RUNTIME_DATA_TYPE_H_
#define TVM_RUNTIME_DATA_TYPE_H_

#include <tvm/runtime/logging.h>

#include <cstdint>
#include <ostream>
#include <string>

MBLOB_FACE_BEGIN

class MBLOB_HIDDEN DataType {
 public:
  enum TypeCode {
    kInt = kDLInt,
    kUInt = kDLUInt,
    kFloat = kDLFloat,
    kHandle = kDLOpaqueHandle,
    kBFloat = kDLBfloat,
    kE4M3Float = 6, /* numbers of TVM 0.14 - 0.19; DLPack's own came later and are others */
    kE5M2Float = 7,
  };

  DataType() : type_{kDLOpaqueHandle, 0, 0} {}
  DataType(DLDataType type) : type_(type) {} /* NOLINT: TVM converts freely */
  DataType(int code, int bits, int lanes)
      : type_{static_cast<uint8_t>(code), static_cast<uint8_t>(bits),
              static_cast<uint16_t>(lanes)} {}
  operator DLDataType() const { return type_; } /* NOLINT */

  int code() const { return type_.code; }
  int bits() const { return type_.bits; }
  int lanes() const { return type_.lanes; }
  int bytes() const { return (bits() + 7) / 8; } /* of one lane */
  bool is_scalar() const { return lanes() == 1; }
  bool is_vector() const { return lanes() > 1; }
  bool is_bool() const { return code() == kUInt && bits() == 1; }
  bool is_int() const { return code() == kInt; }
  bool is_uint() const { return code() == kUInt; }
  bool is_float() const { return code() == kFloat; }
  bool is_float16() const { return is_float() && bits() == 16; }
  bool is_bfloat16() const { return code() == kBFloat && bits() == 16; }
  bool is_e4m3_float8() const { return code() == kE4M3Float && bits() == 8; }
  bool is_e5m2_float8() const { return code() == kE5M2Float && bits() == 8; }
  bool is_float8() const { return is_e4m3_float8() || is_e5m2_float8(); }
  bool is_handle() const { return code() == kHandle && !is_void(); }
  bool is_void() const { return code() == kHandle && bits() == 0 && lanes() == 0; }
  DataType with_lanes(int lanes) const { return DataType(code(), bits(), lanes); }
  DataType with_bits(int bits) const { return DataType(code(), bits, lanes()); }
  DataType element_of() const { return with_lanes(1); }
  bool operator==(const DataType &other) const {
    return code() == other.code() && bits() == other.bits() && lanes() == other.lanes();
  }
  bool operator!=(const DataType &other) const { return !(*this == other); }

  static DataType Int(int bits, int lanes = 1) { return DataType(kInt, bits, lanes); }
  static DataType UInt(int bits, int lanes = 1) { return DataType(kUInt, bits, lanes); }
  static DataType Float(int bits, int lanes = 1) { return DataType(kFloat, bits, lanes); }
  static DataType BFloat(int bits, int lanes = 1) { return DataType(kBFloat, bits, lanes); }
  static DataType NVFloat8E4M3(int lanes = 1) { return DataType(kE4M3Float, 8, lanes); }
  static DataType NVFloat8E5M2(int lanes = 1) { return DataType(kE5M2Float, 8, lanes); }
  static DataType Bool(int lanes = 1) { return UInt(1, lanes); }
  static DataType Handle(int bits = 64, int lanes = 1) { return DataType(kHandle, bits, lanes); }
  static DataType ShapeIndex() { return Int(64); }
  static DataType Void() { return DataType(); }

 private:
  DLDataType type_;
};

/* True if an element of type `t` has exactly these parts. */
inline bool TypeMatch(DLDataType t, int code, int bits, int lanes = 1) {
  return t.code == code && t.bits == bits && t.lanes == lanes;
}

inline bool TypeEqual(DLDataType a, DLDataType b) { return TypeMatch(a, b.code, b.bits, b.lanes); }

/* Bytes of one element, all lanes. */
inline int GetVectorBytes(DLDataType t) { return (t.bits * t.lanes + 7) / 8; }

namespace detail {

struct MBLOB_HIDDEN DataTypeName {
  const char *name;
  uint8_t code;
  uint8_t bits; /* that the name says; 0 if they stand behind it */
};

/* A name that begins another one stands behind it. */
inline constexpr DataTypeName kDataTypeNames[] = {
    {"float8_e3m4", 128, 8}, /* MBLOB_FLOAT8_E3M4 of mblob/plugin.h */
    {"float8_e4m3b11fnuz", 9, 8},
    {"float8_e4m3fnuz", 11, 8},
    {"float8_e4m3fn", 10, 8},
    {"float8_e4m3", 8, 8},
    {"float8_e5m2fnuz", 13, 8},
    {"float8_e5m2", 12, 8},
    {"float8_e8m0fnu", 14, 8},
    {"float6_e2m3fn", 15, 6},
    {"float6_e3m2fn", 16, 6},
    {"float4_e2m1fn", 17, 4},
    {"e4m3_float8", DataType::kE4M3Float, 8},
    {"e5m2_float8", DataType::kE5M2Float, 8},
    {"int", kDLInt, 0},
    {"uint", kDLUInt, 0},
    {"float", kDLFloat, 0},
    {"bfloat", kDLBfloat, 0},
    {"complex", kDLComplex, 0}};

/* The decimal number of 1 to `limit` at text[at]; moves behind it. 0 if there is none. */
inline unsigned ParseNumber(const std::string &text, std::size_t &at, unsigned limit) {
  unsigned value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + static_cast<unsigned>(text[at] - '0');
    if (value > limit) return 0;
  }
  return value;
}

}  // namespace detail

/* The type that `text` names; "" is void. A name without a width means 32 bits, "handle" 64.
 * Throws on others. */
inline DLDataType String2DLDataType(const std::string &text) {
  if (text.empty() || text == "void") return DataType::Void();
  if (text == "bool") return DataType::Bool();
  if (text == "handle") return DataType::Handle();
  for (const detail::DataTypeName &known : detail::kDataTypeNames) {
    const std::string name = known.name;
    if (text.compare(0, name.size(), name) != 0) continue;
    std::size_t at = name.size();
    unsigned bits = known.bits ? known.bits : 32, lanes = 1;
    if (!known.bits && at < text.size() && text[at] != 'x')
      bits = detail::ParseNumber(text, at, UINT8_MAX);
    if (at < text.size() && text[at] == 'x') lanes = detail::ParseNumber(text, ++at, UINT16_MAX);
    if (!bits || !lanes || at != text.size()) break;
    return {known.code, static_cast<uint8_t>(bits), static_cast<uint16_t>(lanes)};
  }
  throw InternalError("'" + text +
                      "' is no data type; expected a form such as float32, int8x4, bool or handle");
}

inline std::string DLDataType2String(DLDataType t) {
  const DataType type(t);
  if (type.is_void()) return "";
  if (type.is_bool() && type.is_scalar()) return "bool";
  std::string text = "custom[" + std::to_string(t.code) + "]" + std::to_string(t.bits);
  for (const detail::DataTypeName &known : detail::kDataTypeNames)
    if (known.code == t.code && (!known.bits || known.bits == t.bits))
      text = known.bits ? known.name : known.name + std::to_string(t.bits);
  if (t.code == kDLOpaqueHandle) text = t.bits == 64 ? "handle" : "handle" + std::to_string(t.bits);
  return t.lanes > 1 ? text + "x" + std::to_string(t.lanes) : text;
}

inline std::ostream &operator<<(std::ostream &os, const DataType &type) {
  return os << DLDataType2String(type);
}

MBLOB_FACE_END

namespace tvm {
using runtime::DataType;
}

#endif /* TVM_RUNTIME_DATA_TYPE_H_ */
