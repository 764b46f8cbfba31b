// String and Optional: container_test of TVM 0.14, in words of our own.
#include <tvm/runtime/container/base.h>

#include <cstring>
#include <unordered_map>

#include "cases.h"

using namespace tvm::runtime;

CASE(String, MoveFromStd) {
  std::string source = "moved text";
  const std::string copy = source;
  const String moved(std::move(source));
  EXPECT(copy == std::string(moved) && moved.size() == copy.size());
}

CASE(String, CopyFromStd) {
  const std::string source = "copied text";
  const String copy{source};
  EXPECT(source == "copied text" && std::string(copy) == source);
}

CASE(String, Assignment) {
  String s{std::string("one")};
  s = std::string("another");
  EXPECT(std::string(s) == "another");
  s = "a third";
  EXPECT(s == "a third");
  const String t = s;
  s = std::string("last");
  EXPECT(t == "a third" && s == "last");
}

CASE(String, empty) {
  String s("not empty");
  EXPECT(!s.empty());
  s = std::string("");
  EXPECT(s.empty() && s.size() == 0);
}

CASE(String, Comparisons) {
  const std::string one = "text", more = "text and more";
  const String s{one}, t{more};
  EXPECT(s == one && !(s == more) && s == one.data() && !(s == more.data()));
  EXPECT((s < t) == (one < more) && (s > t) == (one > more));
  EXPECT((s <= t) == (one <= more) && (s >= t) == (one >= more));
  EXPECT((s == t) == (one == more) && (s != t) == (one != more));
  EXPECT((t < s) == (more < one) && (t >= s) == (more >= one) && t != s);
}

CASE(String, null_byte_handling) {
  const std::string inside("hello\0world", 11);
  const String s{inside};
  EXPECT(s.compare(inside) == 0 && s.size() == 11);
  const std::string first("abc\0one", 7), second("abc\0two", 7);
  EXPECT(String(first).compare(String(second)) == -1 && String(second).compare(first) == 1);
  EXPECT(std::strcmp(first.data(), second.data()) == 0);
  const std::string before("axc\0one", 7), after("abb\0two", 7);
  EXPECT(String(before).compare(String(after)) > 0 && String(before).size() == 7);
}

CASE(String, compare_same_memory_region_different_size) {
  const String s{std::string("shared")};
  char *memory = const_cast<char *>(s.data());
  EXPECT(s.compare(memory) == 0);
  memory[3] = '\0';
  EXPECT(s.compare(memory) > 0);
}

CASE(String, compare) {
  const std::string source = "middle", longer = "middle and more", shorter = "midd", less = "mb",
                    more = "mz";
  const String s{source};
  EXPECT(s.compare(source) == 0 && s == source && source == s && s <= source && source <= s &&
         s >= source && source >= s);
  EXPECT(s.compare(longer) < 0 && s < longer && longer != s);
  EXPECT(s.compare(shorter) > 0 && s > shorter && shorter < s);
  EXPECT(s.compare(less) > 0 && s > less && s.compare(more) < 0 && more > s);
  EXPECT(s.compare(source.data()) == 0 && source.data() == s && s <= source.data() &&
         source.data() >= s);
  EXPECT(s.compare(longer.data()) < 0 && longer.data() != s && s > shorter.data() &&
         shorter.data() < s);
  EXPECT(s.compare(String(longer)) < 0 && s < String(longer) && s > String(less));
}

CASE(String, c_str) {
  const std::string source = "a text";
  const String s{source};
  EXPECT(std::strcmp(s.c_str(), source.data()) == 0 && std::strcmp(s.c_str(), "other") != 0);
}

CASE(String, hash) {
  std::unordered_map<String, std::string> map;
  map[String("k1")] = "v1";
  map[String("k2")] = "v2";
  EXPECT(map[String("k1")] == "v1" && map[String("k2")] == "v2" && map.size() == 2);
  EXPECT(std::hash<String>()(String("k")) == std::hash<String>()(String("k")));
}

CASE(String, Cast) {
  const String s("a text");
  const ObjectRef ref = s;
  const String back = Downcast<String>(ref);
  EXPECT(back == s && back.same_as(s) && ref.same_as(back));
}

CASE(String, Concat) {
  const String hello("hello"), world("world");
  const std::string plain("world");
  EXPECT((hello + world).compare("helloworld") == 0 && (hello + plain).compare("helloworld") == 0);
  EXPECT((plain + hello).compare("worldhello") == 0 &&
         (hello + "world").compare("helloworld") == 0);
  EXPECT(("world" + hello).compare("worldhello") == 0);
}

CASE(Optional, Composition) {
  Optional<String> none(nullptr), text = String("xyz"), other = String("other");
  EXPECT(!none && text);
  EXPECT(none != "xyz" && text == "xyz" && text != nullptr && none == nullptr);
  EXPECT(none.value_or("abc") == "abc" && text.value_or("abc") == "xyz");
  EXPECT(none != text && text == Optional<String>(String("xyz")));
  EXPECT(none == Optional<String>(nullptr));
  none = text;
  EXPECT(none == text && none.value().same_as(text.value()));
  none = std::move(other);
  EXPECT(none != other);
}

CASE(Optional, PackedCall) {
  const auto check = [](Optional<String> s, bool is_null) {
    EXPECT((s == nullptr) == is_null && (s != nullptr) != is_null);
    return s;
  };
  const TypedPackedFunc<Optional<String>(Optional<String>, bool)> typed(check);
  EXPECT(typed(String("xyz"), false) == "xyz");
  EXPECT(typed(Optional<String>(nullptr), true) == nullptr);
  const PackedFunc packed([&](TVMArgs args, TVMRetValue *rv) {
    const Optional<String> s = args[0];
    *rv = check(s, args[1]);
  });
  EXPECT(packed("xyz", false).operator String() == "xyz");
  EXPECT(packed("xyz", false).operator Optional<String>() == "xyz");
  EXPECT(packed(nullptr, true).operator Optional<String>() == nullptr);
  const PackedFunc code([](TVMArgs args, TVMRetValue *rv) { *rv = args[0].type_code(); });
  const NDArray array = NDArray::Empty({0, 1}, DataType::Float(32), DLDevice{kDLCPU, 0});
  EXPECT(code(Optional<NDArray>(array)).operator int() == kTVMNDArrayHandle);
}
