// Objects of one's own: container_test and object_protocol_test of TVM 0.14, in words of our own.
#include <sys/wait.h>
#include <tvm/runtime/container/base.h>
#include <unistd.h>

#include <new>
#include <vector>

#include "cases.h"

using namespace tvm::runtime;

namespace {

class ValueNode : public Object {
 public:
  explicit ValueNode(int given) : value(given) {}
  static constexpr const char *_type_key = "test.Value";
  TVM_DECLARE_FINAL_OBJECT_INFO(ValueNode, Object);
  int value;
};
TVM_REGISTER_OBJECT_TYPE(ValueNode);

class Value : public ObjectRef {
 public:
  explicit Value(int value) : ObjectRef(make_object<ValueNode>(value)) {}
  TVM_DEFINE_OBJECT_REF_METHODS(Value, ObjectRef, ValueNode);
};

class Base : public Object {
 public:
  static constexpr const char *_type_key = "test.Base";
  TVM_DECLARE_BASE_OBJECT_INFO(Base, Object);
};
class A : public Base {
 public:
  static constexpr const char *_type_key = "test.A";
  TVM_DECLARE_BASE_OBJECT_INFO(A, Base);
};
class B : public Base {
 public:
  static constexpr const char *_type_key = "test.B";
  TVM_DECLARE_BASE_OBJECT_INFO(B, Base);
};
class AA : public A {
 public:
  static constexpr const char *_type_key = "test.AA";
  TVM_DECLARE_FINAL_OBJECT_INFO(AA, A);
};

int destroyed;

// Counts destructions of elements that say so.
struct Element {
  explicit Element(bool given) : counts(given) {}
  Element(const Element &other) : counts(other.counts) {
    const_cast<Element &>(other).counts = false;
  }
  ~Element() { destroyed += counts; }
  bool counts;
};

class Row : public Object, public InplaceArrayBase<Row, Element> {
 public:
  static constexpr const char *_type_key = "test.Row";
  TVM_DECLARE_FINAL_OBJECT_INFO(Row, Object);
  std::size_t GetSize() const { return size; }
  // Fails after the second element; `early`: the size is set before.
  void Init(const std::vector<Element> &given, bool early) {
    size = early ? given.size() : 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      InplaceArrayBase::EmplaceInit(i, given[i]);
      if (i == 1) throw std::bad_alloc();
      if (!early) ++size;
    }
  }
  std::size_t size = 0;

 private:
  friend class InplaceArrayBase<Row, Element>;
};

// Elements of a row destroyed, whose initialization fails.
int DestroyedOf(bool early) {
  std::vector<Element> given;
  given.reserve(2);
  given.emplace_back(false);
  given.emplace_back(true);
  auto row = make_inplace_array_object<Row, Element>(given.size());
  try {
    row->Init(given, early);
  } catch (const std::bad_alloc &) {
  }
  destroyed = 0;
  row.reset();
  return destroyed;
}

}  // namespace

CASE(InplaceArrayBase, BadExceptionSafety) { EXPECT(DestroyedOf(true) == 1); }
CASE(InplaceArrayBase, ExceptionSafety) { EXPECT(DestroyedOf(false) == 0); }

CASE(ObjectHierachy, Basic) {
  const ObjectRef a(make_object<A>()), aa(make_object<AA>()), b(make_object<B>());
  EXPECT(a->type_index() == A::RuntimeTypeIndex() && aa->type_index() == AA::RuntimeTypeIndex());
  EXPECT(a->type_index() != b->type_index() && a->GetTypeKey() == "test.A");
  EXPECT(a.as<Object>() && a.as<A>() && a.as<Base>() && !a.as<B>() && !a.as<AA>());
  EXPECT(aa.as<Object>() && aa.as<Base>() && aa.as<A>() && aa.as<AA>() && !aa.as<B>());
  EXPECT(b.as<Object>() && b.as<Base>() && !b.as<A>() && !b.as<AA>() && b.as<B>());
}

CASE(ADT, Constructor) {
  const std::vector<ObjectRef> none;
  const ADT first = ADT::Tuple(none), second = ADT::Tuple(none);
  const ADT both{1, {first, second}};
  EXPECT(first.tag() == 0 && second.size() == 0 && both.tag() == 1 && both.size() == 2);
  EXPECT(Downcast<ADT>(both[0]).tag() == 0 && Downcast<ADT>(both[1]).size() == 0);
}

CASE(Variant, Construct) {
  Variant<Value, String> variant;
  variant = Value(1);
  EXPECT(variant.as<Value>() && !variant.as<String>() && variant.as<Value>().value()->value == 1);
  variant = String("hello");
  EXPECT(variant.as<String>() && !variant.as<Value>());
}

CASE(Variant, InvalidTypeThrowsError) {
  (void)Thrown([] { Variant<Value, String> variant{ObjectPtr<Object>(make_object<A>())}; });
  const Variant<Value, String> fits{ObjectPtr<Object>(make_object<ValueNode>(3))};
  EXPECT(fits.as<Value>().value()->value == 3);
}

CASE(Variant, ReferenceIdentifyPreservedThroughAssignment) {
  Variant<Value, String> variant;
  EXPECT(!variant.defined());
  const String text = "some text";
  variant = text;
  EXPECT(variant.defined() && variant.same_as(text) && text.same_as(variant));
  EXPECT(text.same_as(Downcast<String>(variant)));
}

CASE(Variant, ExtractValueFromAssignment) {
  const Variant<Value, String> variant = String("hello");
  EXPECT(variant.as<String>().value() == "hello");
}

CASE(Variant, AssignmentFromVariant) {
  const Variant<Value, String> variant = String("hello");
  const auto copy = variant;
  EXPECT(copy.as<String>() && copy.as<String>().value() == "hello" && copy.same_as(variant));
}

// What programs do with references of their own beside TVM's cases.
CASE(Own, References) {
  const Value value(7);
  EXPECT(value.use_count() == 1 && value->value == 7);
  const Value again = GetRef<Value>(value.get());
  EXPECT(value.use_count() == 2 && again.same_as(value));
  const ObjectRef base = again;
  EXPECT(Downcast<Value>(base)->value == 7 && base.as<ValueNode>()->value == 7);
  EXPECT(Has(Thrown([&] { (void)Downcast<NDArray>(base); }), "type code"));
  const PackedFunc f([](TVMArgs, TVMRetValue *) {});
  EXPECT(Has(Thrown([&] { f(value); }), "the runtime does not know"));
}
