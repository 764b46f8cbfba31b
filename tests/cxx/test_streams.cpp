// Arrays in streams, and the streams of compat/dmlc.
#include <dmlc/io.h>
#include <dmlc/memory_io.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "test_face.h"

using namespace tvm::runtime;

namespace {

const DLDevice kCpu{kDLCPU, 0};

NDArray Counted(const ShapeTuple &shape, DataType type) {
  NDArray array = NDArray::Empty(shape, type, kCpu);
  unsigned char *bytes = static_cast<unsigned char *>(array->data);
  for (std::size_t i = 0; i < GetDataSize(*array.operator->()); ++i)
    bytes[i] = static_cast<unsigned char>(i);
  return array;
}

bool SameBytes(const NDArray &a, const NDArray &b) {
  return std::memcmp(a->data, b->data, GetDataSize(*a.operator->())) == 0;
}

std::string Saved(const NDArray &array) {
  std::string bytes;
  dmlc::MemoryStringStream stream(&bytes);
  array.Save(&stream);
  return bytes;
}

std::string Refused(std::string bytes) {
  NDArray array = Counted({2}, DataType::Int(8)), before = array;
  dmlc::MemoryStringStream stream(&bytes);
  const std::string why = Thrown([&] { array.Load(&stream); });
  REQUIRE(array.same_as(before));
  return why;
}

std::string Changed(std::string bytes, std::size_t at, char value) {
  bytes[at] = value;
  return bytes;
}

void ArraysComeBackAsTheyWere() {
  const DataType types[] = {DataType::Float(32),      DataType::Float(64), DataType::BFloat(16),
                            DataType::Int(8),         DataType::Int(64),   DataType::Bool(),
                            DataType::NVFloat8E4M3(), DataType::UInt(16)};
  std::string bytes;
  dmlc::MemoryStringStream stream(&bytes);
  const ShapeTuple shapes[] = {ShapeTuple{}, ShapeTuple{3}, ShapeTuple{2, 0, 4},
                               ShapeTuple{1, 2, 3, 2, 1}};
  for (const DataType &type : types)
    for (const ShapeTuple &shape : shapes) Counted(shape, type).Save(&stream);
  stream.Seek(0);
  for (const DataType &type : types)
    for (const ShapeTuple &shape : shapes) {
      NDArray array;
      REQUIRE(array.Load(static_cast<dmlc::Stream *>(&stream)));
      REQUIRE(array.Shape() == shape && array.DataType() == type &&
              SameBytes(array, Counted(shape, type)));
    }
  REQUIRE(stream.Tell() == bytes.size());
}

void TheBytesAreThoseOfTheFormat() {
  const unsigned char head[] = {0x3F, 0xA1, 0xB4, 0x96, 0xF0, 0x40, 0x5E, 0xDD, 0, 0, 0, 0,
                                0,    0,    0,    0,    1,    0,    0,    0,    0, 0, 0, 0,
                                1,    0,    0,    0,    1,    16,   1,    0,    2, 0, 0, 0,
                                0,    0,    0,    0,    4,    0,    0,    0,    0, 0, 0, 0};
  const std::string bytes = Saved(Counted({2}, DataType::UInt(16)));
  REQUIRE(bytes.size() == sizeof(head) + 4 && std::memcmp(bytes.data(), head, sizeof(head)) == 0);
}

void WhatLiesIsRefused() {
  const std::string good = Saved(Counted({2, 3}, DataType::Float(32)));
  REQUIRE(Has(Refused(Changed(good, 0, 0)), "wrong magic"));
  REQUIRE(Has(Refused(Changed(good, 16, 2)), "device type 2"));
  REQUIRE(Has(Refused(Changed(good, 24, 65)), "ndim is 65"));
  REQUIRE(Has(Refused(Changed(good, 27, '\x80')), "ndim is -"));
  REQUIRE(Has(Refused(Changed(good, 30, 4)), "float32x4"));
  REQUIRE(Has(Refused(Changed(good, 39, '\x80')), "extent of its shape is -"));
  REQUIRE(Has(Refused(Changed(good, 39, 0x70)), "more bytes than memory"));
  REQUIRE(Has(Refused(Changed(good, 48, 23)), "declares 23 bytes, its shape has 24"));
  for (std::size_t size = 0; size < good.size(); ++size)
    REQUIRE(Has(Refused(good.substr(0, size)), "the stream ends in the array's"));
  dmlc::MemoryStringStream stream(nullptr);
  REQUIRE(Has(Thrown([&] { NDArray::Empty({2}, DataType::Float(32, 4), kCpu).Save(&stream); }),
              "float32x4"));
}

void StreamsHoldNumbersTextsAndRows() {
  const std::string path = std::string(std::getenv("TEST_LIBRARY")) + ".stream";
  const std::vector<std::string> names = {"a", "", std::string(9000, 'x')};
  {
    std::unique_ptr<dmlc::Stream> file(dmlc::Stream::Create(path.c_str(), "w"));
    file->Write(uint64_t{7});
    file->Write(names);
    file->Write(std::vector<double>{0.5, -1});
    Counted({5}, DataType::Int(32)).Save(file.get());
  }
  std::unique_ptr<dmlc::SeekStream> file(dmlc::SeekStream::CreateForRead(path.c_str()));
  uint64_t number = 0;
  std::vector<std::string> texts;
  std::vector<double> row;
  NDArray array;
  REQUIRE(file->Read(&number) && number == 7 && file->Read(&texts) && texts == names &&
          file->Read(&row));
  REQUIRE(row == (std::vector<double>{0.5, -1}) && array.Load(file.get()) && !file->Read(&number));
  REQUIRE(SameBytes(array, Counted({5}, DataType::Int(32))));
  file->Seek(0);
  REQUIRE(file->Read(&number) && number == 7 && file->Tell() == 8);
  REQUIRE(std::remove(path.c_str()) == 0 &&
          dmlc::Stream::Create(path.c_str(), "r", true) == nullptr);
  REQUIRE(Has(Thrown<dmlc::Error>([&] { dmlc::Stream::Create(path.c_str(), "r"); }),
              "cannot be opened"));
  std::string lie(8, '\xff');  // a size
  dmlc::MemoryStringStream stream(&lie);
  REQUIRE(!stream.Read(&texts));
  char room[4] = "abc";
  dmlc::MemoryFixedSizeStream fixed(room, sizeof(room));
  REQUIRE(fixed.Write("xyz!", 4) == 4 && room[3] == '!' && fixed.Read(room, 4) == 0);
  REQUIRE(Has(Thrown<dmlc::Error>([&] { fixed.Write("1", 1); }), "1 bytes from 4 on, there are 4"));
}

struct Plain {
  uint16_t a;
  uint32_t b;
};

// With Save and Load, as TVM's FunctionInfo has them.
struct Info {
  std::string name;
  std::vector<std::string> tags;
  void Save(dmlc::Stream *stream) const {
    stream->Write(name);
    stream->Write(tags);
  }
  bool Load(dmlc::Stream *stream) { return stream->Read(&name) && stream->Read(&tags); }
  bool operator==(const Info &other) const { return name == other.name && tags == other.tags; }
};

class Counter : public dmlc::Serializable {
 public:
  uint8_t count = 0;
  void Load(dmlc::Stream *stream) override { (void)stream->Read(&count); }
  void Save(dmlc::Stream *stream) const override { stream->Write(count); }
};

}  // namespace

namespace dmlc {
DMLC_DECLARE_TRAITS(has_saveload, ::Info, true);
}

namespace {

// That `value` is those bytes, that they are the value again, and that fewer are none.
template <typename T>
void IsStored(const T &value, const std::vector<unsigned char> &expected) {
  std::string bytes;
  dmlc::MemoryStringStream out(&bytes);
  out.Write(value);
  REQUIRE(bytes == std::string(expected.begin(), expected.end()));
  T again{};
  out.Seek(0);
  REQUIRE(out.Read(&again) && again == value && out.Tell() == bytes.size());
  std::string short_bytes = bytes.substr(0, bytes.size() - 1);
  dmlc::MemoryStringStream in(&short_bytes);
  REQUIRE(!in.Read(&again));
}

// A size of 2^64 - 1 before three objects, whose Load does not say that there are no more.
void SizesThatLieEndWithTheStream() {
  std::string bytes = std::string(8, '\xff') + "abc";
  std::vector<Counter> counters;
  REQUIRE(!dmlc::MemoryStringStream(&bytes).Read(&counters) && counters.size() == 4);
  bytes = std::string(8, '\xff') + "abc";
  std::list<std::pair<std::string, Counter>> pairs;
  REQUIRE(!dmlc::MemoryStringStream(&bytes).Read(&pairs) && pairs.empty());
}

// The bytes are those of dmlc-core on a little endian machine, written by hand.
void ContainersPairsAndObjectsAreStoredAsDmlcStoresThem() {
  IsStored(std::pair<std::string, uint16_t>("a", 7), {1, 0, 0, 0, 0, 0, 0, 0, 'a', 7, 0});
  IsStored(std::map<uint8_t, std::string>{{2, "b"}, {3, ""}},
           {2, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 'b', 3, 0, 0, 0, 0, 0, 0, 0, 0});
  IsStored(std::unordered_map<uint64_t, std::vector<uint64_t>>{{5, {1}}},  // an import tree
           {1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
            1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0});
  IsStored(std::set<uint8_t>{9, 4}, {2, 0, 0, 0, 0, 0, 0, 0, 4, 9});
  IsStored(std::unordered_set<uint8_t>{9}, {1, 0, 0, 0, 0, 0, 0, 0, 9});
  IsStored(std::list<uint16_t>{1, 2}, {2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0});
  IsStored(std::deque<uint8_t>{3}, {1, 0, 0, 0, 0, 0, 0, 0, 3});
  IsStored(std::vector<bool>{true, false}, {2, 0, 0, 0, 0, 0, 0, 0, 1, 0});
  IsStored(std::unordered_map<std::string, Info>{{"k", {"n", {"t"}}}},
           {1, 0, 0, 0,   0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'k', 1, 0, 0, 0,  0,
            0, 0, 0, 'n', 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,   0, 0, 0, 't'});
  std::string bytes;
  dmlc::MemoryStringStream stream(&bytes);
  Counter counter;
  counter.count = 6;
  const NDArray array = Counted({2}, DataType::Int(8));
  stream.Write(counter);
  stream.Write(std::vector<NDArray>{array});
  stream.Seek(0);
  counter.count = 0;
  std::vector<NDArray> arrays;
  REQUIRE(stream.Read(&counter) && counter.count == 6 && stream.Read(&arrays) &&
          arrays.size() == 1);
  REQUIRE(SameBytes(arrays[0], array));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  const DLDevice device{kDLCUDA, 1};
  Plain plain{1, 2};
  bytes.clear();
  stream.Seek(0);
  stream.Write(device);
  stream.Write(plain);
  REQUIRE(bytes.substr(0, 9) == std::string("\2\0\0\0\1\0\0\0\1", 9) && bytes.size() == 16);
  plain = {};
  stream.Seek(8);
  REQUIRE(stream.Read(&plain) && plain.a == 1 && plain.b == 2);
  IsStored(std::pair<uint8_t, uint32_t>(1, 2), {1, 0, 0, 0, 2, 0, 0, 0});  // the memory of the pair
#endif
}

}  // namespace

void TestStreams() {
  ContainersPairsAndObjectsAreStoredAsDmlcStoresThem();
  SizesThatLieEndWithTheStream();
  ArraysComeBackAsTheyWere();
  TheBytesAreThoseOfTheFormat();
  WhatLiesIsRefused();
  StreamsHoldNumbersTextsAndRows();
}
