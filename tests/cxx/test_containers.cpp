// Containers of the C++ face: as values, as arguments and results of functions.
#include <tvm/runtime/container/adt.h>
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/base.h>
#include <tvm/runtime/container/map.h>
#include <tvm/runtime/container/optional.h>

#include <map>
#include <unordered_map>
#include <vector>

#include "test_face.h"

using namespace tvm::runtime;

namespace {

const DLDevice kCpu{kDLCPU, 0};

NDArray Scalar(float value) {
  NDArray array = NDArray::Empty({1}, DataType::Float(32), kCpu);
  static_cast<float *>(array->data)[0] = value;
  return array;
}

float At(const NDArray &array) { return static_cast<float *>(array->data)[0]; }

TVMRetValue Echo(const TVMRetValue &value) {
  static const PackedFunc echo([](TVMArgs args, TVMRetValue *rv) { *rv = args[0]; });
  return echo(value);
}

void ShapesAreArgumentsAndResults() {
  const TypedPackedFunc<ShapeTuple(ShapeTuple, int64_t)> append = [](ShapeTuple shape,
                                                                     int64_t extent) {
    std::vector<int64_t> extents = shape;
    extents.push_back(extent);
    return ShapeTuple(extents);
  };
  REQUIRE((append({2, 3}, 4) == ShapeTuple{2, 3, 4}) && append({}, 1).Product() == 1);
  const ShapeTuple shape{5, 6};
  const TVMRetValue rv = append.packed()(shape, 7);
  REQUIRE(rv.type_code() == kTVMObjectHandle && rv.operator ShapeTuple() == (ShapeTuple{5, 6, 7}));
  const std::vector<int64_t> extents = rv.operator ShapeTuple();
  REQUIRE(extents.size() == 3 && Echo(rv).operator ShapeTuple() == rv.operator ShapeTuple());
  const ShapeTuple copy = shape;
  REQUIRE(copy.object().same_as(shape.object()));
  REQUIRE(Has(Thrown([&] { append.packed()("no", 1); }), "argument 0: expected Object, found str"));
  REQUIRE(Has(Thrown([&] { append.packed()(Array<int>{1}, 1); }),
              "expected a ShapeTuple, found an Array"));
}

void ArraysHoldAnything() {
  const Array<NDArray> arrays = {Scalar(1), Scalar(2)};
  REQUIRE(arrays.size() == 2 && At(arrays[1]) == 2 && At(arrays.front()) == 1 &&
          At(arrays.back()) == 2);
  float sum = 0;
  for (const NDArray &array : arrays) sum += At(array);
  REQUIRE(sum == 3);
  Array<String> names{"a", "b"};
  const Array<String> before = names;
  names.push_back(std::string("c\0d", 3));
  names.Set(0, "z");
  REQUIRE(names.size() == 3 && before.size() == 2 && names[0] == "z" && names[2].size() == 3 &&
          before[0] == "a");
  const std::vector<String> values = names;
  REQUIRE(values[1] == "b" && Array<String>(values.begin(), values.end()).size() == 3);
  REQUIRE(Has(Thrown([&] { (void)names[3]; }), "index 3 of 3 items"));
  REQUIRE(Has(Thrown([&] { names.Set(3, ""); }), "index 3 of 3 items"));
  REQUIRE(Has(Thrown([&] { (void)Array<int>()[0]; }), "index 0 of 0 items") &&
          Array<int>().empty());
  const Array<Array<int64_t>> nested{{1, 2}, {3}};
  REQUIRE(nested[0][1] == 2 && nested[1].size() == 1);
  const Array<ObjectRef> mixed{ObjectRef(Scalar(4)), nested};
  REQUIRE(At(Downcast<NDArray>(mixed[0])) == 4);
  REQUIRE((Downcast<Array<Array<int64_t>>>(mixed[1])[0].size() == 2));
  REQUIRE(Has(Thrown([&] { (Downcast<Map<String, int>>(mixed[1])); }), "of another class"));
  DLTensor borrowed = *arrays[0].operator->();
  REQUIRE(Has(Thrown([&] { (*Registry::Get("runtime.Array"))(&borrowed); }),
              "a tensor that is borrowed"));
}

void ArraysAreArgumentsAndResults() {
  const TypedPackedFunc<Array<int64_t>(Array<int64_t>)> twice = [](Array<int64_t> given) {
    std::vector<int64_t> doubled;
    for (int64_t x : given) doubled.push_back(2 * x);
    return Array<int64_t>(doubled);
  };
  REQUIRE(twice({1, 21})[1] == 42);
  TVMRetValue rv;
  rv = Array<NDArray>{Scalar(7)};
  const Array<NDArray> kept = Echo(rv);
  rv = nullptr;
  REQUIRE(kept.size() == 1 && At(kept[0]) == 7);
  REQUIRE(kept[0].use_count() == 2 && kept.use_count() == 1);
  // Depth is no matter of the stack.
  ObjectRef deep = Array<int64_t>{1};
  for (int i = 0; i < 100000; ++i) deep = Array<ObjectRef>{deep};
}

void MapsFindByContent() {
  Map<String, NDArray> map{{"one", Scalar(1)}, {"two", Scalar(2)}};
  REQUIRE(map.size() == 2 && At(map.at("two")) == 2 && At(map["one"]) == 1 &&
          map.count("three") == 0);
  REQUIRE(Has(Thrown([&] { map.at("three"); }), "no key 'three'"));
  REQUIRE(map.find("two") != map.end() && At((*map.find("two")).second) == 2 &&
          map.find("x") == map.end());
  const Map<String, NDArray> before = map;
  map.Set("two", Scalar(20));
  map.Set("three", Scalar(3));
  REQUIRE(map.size() == 3 && At(map.at("two")) == 20 && before.size() == 2 &&
          At(before.at("two")) == 2);
  std::string order;
  for (const auto &item : map) order += std::string(item.first) + " ";
  REQUIRE(order == "one two three ");
  REQUIRE(map.Get("one").defined() && !map.Get("x").defined());
  const std::map<int, int> squares{{2, 4}, {3, 9}};
  const Map<int, int> numbers(squares.begin(), squares.end());
  REQUIRE(numbers[3] == 9 && (Map<int, int>().empty()) &&
          (Map<int, int>().begin() == Map<int, int>().end()));
  const TypedPackedFunc<Map<String, int>(Map<String, int>)> increment = [](Map<String, int> given) {
    std::map<std::string, int> more;
    for (const auto &item : given) more[item.first] = item.second + 1;
    return Map<String, int>(more.begin(), more.end());
  };
  REQUIRE(increment({{"a", 1}})["a"] == 2);
}

void StringsAreObjectsWhereOneIsWanted() {
  Map<String, ObjectRef> map;
  map.Set("text", String("s"));
  map.Set("zero", String(std::string("a\0b", 3)));
  map.Set("array", Scalar(3));
  const ObjectRef text = map["text"];
  REQUIRE(Downcast<String>(text) == "s" && Downcast<String>(map["zero"]).size() == 3);
  const StringObj *shown = text.as<StringObj>();
  REQUIRE(shown && shown->size == 1 && std::string(shown->data, shown->size) == "s");
  REQUIRE(text.as<String>().value() == "s" && !text.as<NDArray>() && !map["array"].as<String>());
  REQUIRE(!map["array"].as<StringObj>() && !ObjectRef().as<String>() &&
          At(map["array"].as<NDArray>().value()) == 3);
  REQUIRE(Has(Thrown([&] { Downcast<String>(map["array"]); }),
              "the object is a runtime.NDArray, expected a runtime.String"));
  const Array<ObjectRef> mixed{String("x"), Scalar(1)};
  REQUIRE(Downcast<String>(mixed[0]) == "x" && mixed.size() == 2);
  const TypedPackedFunc<int64_t(String)> length = [](String given) {
    return static_cast<int64_t>(given.size());
  };
  REQUIRE(length.packed()(text).operator int64_t() == 1 &&
          length.packed()(map["zero"]).operator int64_t() == 3);
  REQUIRE(Has(Thrown([&] { length.packed()(map["array"]); }), "expected str, found NDArray"));
  const std::string given = Echo([&] {
    TVMRetValue rv;
    rv = text;
    return rv;
  }());
  REQUIRE(given == "s");
  const Array<ObjectRef> texts =
      Downcast<Array<ObjectRef>>(Array<String>{"a", "b"});  // held as texts
  REQUIRE(Downcast<String>(texts[1]) == "b" && Echo(TVMRetValue()).IsObjectRef<String>() == false);
  unsigned index = 0;
  REQUIRE(TVMObjectGetTypeIndex(text.handle(), &index) == 0 && index == 3 && text.use_count() == 2);
}

// What TVM's classes take and have in other ways than above.
void ContainersAreMadeAsInTVM() {
  const ShapeTuple shape{1, 2};
  const ObjectRef object = shape;
  Array<ObjectRef> row;
  row.push_back(shape);
  REQUIRE(Downcast<ShapeTuple>(object) == shape && Downcast<ShapeTuple>(row[0]) == shape &&
          ObjectRef(Downcast<ShapeTuple>(object)).same_as(object));
  REQUIRE(object.as<ShapeTuple>().value() == shape && !object.as<String>());
  REQUIRE(Has(Thrown([&] { Downcast<ShapeTuple>(ObjectRef(Scalar(1))); }),
              "the object is a runtime.NDArray, expected a runtime.ShapeTuple"));
  const Array<String> texts(3, String("x"));
  REQUIRE(texts.size() == 3 && texts[2] == "x" && Array<int>(2, 7)[1] == 7);
  std::string order;
  const Array<String> letters{"a", "b", "c"};
  for (auto it = letters.rbegin(); it != letters.rend(); ++it) order += *it;
  REQUIRE(order == "cba");
  const std::unordered_map<String, int> numbers{{"a", 1}, {"b", 2}};
  const Map<String, int> map = numbers;
  REQUIRE(map.size() == 2 && map["b"] == 2);
  const String text(3, 'x');
  REQUIRE(text == "xxx" && text->size == 3 && text.get()->data == text.data());
}

// Of every object `->` says what it is, as its own class does.
void ObjectsSayWhatTheyAre() {
  const auto is = [](const ObjectRef &o, const char *key) {
    REQUIRE(o->IsInstance<Object>() && o->GetTypeKey() == key);
    REQUIRE(o->IsInstance<NDArray::ContainerType>() == (o->GetTypeKey() == "runtime.NDArray"));
    REQUIRE(o->IsInstance<StringObj>() == (o->GetTypeKey() == "runtime.String"));
    REQUIRE(o->IsInstance<ArrayNode>() == (o->GetTypeKey() == "Array"));
    REQUIRE(o->IsInstance<MapNode>() == (o->GetTypeKey() == "Map"));
    REQUIRE(o->IsInstance<ShapeTupleObj>() == (o->GetTypeKey() == "runtime.ShapeTuple"));
    REQUIRE(o->IsInstance<ADTObj>() == (o->GetTypeKey() == "runtime.ADT"));
    REQUIRE(o->IsInstance<ModuleNode>() == (o->GetTypeKey() == "runtime.Module"));
    REQUIRE(o->unique());
  };
  is(Scalar(1), "runtime.NDArray");
  is(Array<int>{1}, "Array");
  is(Map<String, int>{{"a", 1}}, "Map");
  is(ADT::Tuple(Scalar(1)), "runtime.ADT");
  is(PackedFunc([](TVMArgs, TVMRetValue *) {}), "runtime.PackedFunc");
  const String text("s");
  const ObjectRef shape = Echo([] {
    TVMRetValue rv;
    rv = ShapeTuple{1, 2};
    return rv;
  }());
  REQUIRE(ObjectRef(text)->IsInstance<StringObj>() && shape->IsInstance<ShapeTupleObj>());
  REQUIRE(shape->GetTypeKey() == "runtime.ShapeTuple" && !shape->IsInstance<ArrayNode>());
  REQUIRE(!ObjectRef()->IsInstance<Object>() && ObjectRef(Scalar(1))->type_index() == 2);
}

void OptionalsAreNothingOrAValue() {
  const TypedPackedFunc<Optional<String>(Optional<String>)> greet = [](Optional<String> name) {
    return name.defined() ? Optional<String>("hello " + name.value()) : Optional<String>(NullOpt);
  };
  REQUIRE(greet(String("you")).value() == "hello you" && greet(NullOpt) == nullptr);
  REQUIRE(greet.packed()(nullptr).type_code() == kTVMNullptr);
  const Optional<NDArray> none;
  REQUIRE(!none && none == nullptr && At(none.value_or(Scalar(3))) == 3);
  REQUIRE(Has(Thrown([&] { (void)none.value(); }), "there is no value"));
  const Optional<Array<int64_t>> some = Array<int64_t>{1};
  REQUIRE(some.value()[0] == 1 && some != nullptr && Optional<String>("x") == String("x"));
}

void TuplesOfTheVirtualMachine() {
  const ADT pair = ADT::Tuple(Scalar(1), ADT(5, {Scalar(2)}));
  REQUIRE(pair.tag() == 0 && pair.size() == 2 && At(Downcast<NDArray>(pair[0])) == 1);
  const ADT inner = Downcast<ADT>(pair[1]);
  REQUIRE(inner.tag() == 5 && At(Downcast<NDArray>(inner[0])) == 2);
  REQUIRE(inner->tag == 5 && pair->size == 2);
  REQUIRE(inner.as<ADT>().value().tag() == 5 && !inner.as<NDArray>() &&
          pair[0].as<NDArray>() != nullptr);
  const TypedPackedFunc<int(ADT)> size = [](ADT adt) { return static_cast<int>(adt.size()); };
  REQUIRE(size(pair) == 2);
  REQUIRE(Has(Thrown([&] { (void)inner[1]; }), "no field 1; there are 1"));
  const Module module = Module::LoadFromFile(std::getenv("TEST_LIBRARY"));
  REQUIRE(Has(Thrown([&] { Downcast<ADT>(ObjectRef(module)); }), "of another class"));
  REQUIRE(Has(Thrown([&] { size.packed()(module); }), "another class of Module"));
}

}  // namespace

void TestContainers() {
  ShapesAreArgumentsAndResults();
  ArraysHoldAnything();
  ArraysAreArgumentsAndResults();
  MapsFindByContent();
  StringsAreObjectsWhereOneIsWanted();
  ContainersAreMadeAsInTVM();
  ObjectsSayWhatTheyAre();
  OptionalsAreNothingOrAValue();
  TuplesOfTheVirtualMachine();
}
