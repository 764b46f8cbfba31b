/* registry.h - functions of the process by name: Registry and TVM_REGISTER_GLOBAL.
 *
 * A shared library that registers functions must stay in memory as long as somebody may call
 * them: g++ sees to it, with other compilers link it with -Wl,-z,nodelete. */
#ifndef TVM_RUNTIME_REGISTRY_H_
#define TVM_RUNTIME_REGISTRY_H_

#include <tvm/runtime/packed_func.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

MBLOB_FACE_BEGIN

namespace detail {
/* What <dmlc/io.h> does with functions that load modules from streams (binary_loader.h). */
using LoaderHook = void (*)(const std::string &key, const PackedFunc &load);
inline LoaderHook &BinaryLoaderHook() {
  static LoaderHook hook = nullptr;
  return hook;
}
}  // namespace detail

/* In TVM, asks if Python wants a signal to be handled. This runtime has no such hook, as TVM's has
 * none where none is registered. */
inline void EnvCheckSignals() {}

class MBLOB_HIDDEN Registry {
 public:
  /* Claims a name; the function is given with set_body. Throws if the name is taken, unless
   * `can_override`.
   */
  static Registry &Register(const std::string &name, bool can_override = false) {
    const PackedFunc taken =
        Find(name); /* functions are freed without the lock: what they hold may come here */
    const std::lock_guard<std::mutex> lock(State().mutex);
    if (!can_override && taken.defined())
      throw InternalError("global function '" + name + "' is already registered");
    std::unique_ptr<Registry> &entry = State().entries[name];
    if (!entry) entry.reset(new Registry(name));
    return *entry;
  }
  Registry &set_body(PackedFunc function) {
    static const std::string loads = "runtime.module.loadbinary_";
    detail::CheckCall(TVMFuncRegisterGlobal(name_.c_str(), function.handle(), 1));
    if (name_.compare(0, loads.size(), loads) == 0 && detail::BinaryLoaderHook() != nullptr)
      detail::BinaryLoaderHook()(name_.substr(loads.size()), function);
    return *this;
  }
  template <typename F, typename = std::enable_if_t<std::is_constructible_v<PackedFunc, F &&> &&
                                                    !std::is_convertible_v<F &&, PackedFunc>>>
  Registry &set_body(F &&body) {
    return set_body(PackedFunc(std::forward<F>(body)));
  }
  /* A function or lambda of any signature. */
  template <typename F>
  Registry &set_body_typed(F f) {
    using Typed = TypedPackedFunc<typename detail::SignatureOf<F>::type>;
    return set_body(Typed(std::move(f), name_).packed());
  }

  /* A member function, of a class of references (Module, NDArray) that is the first argument of
   * the function. */
  template <typename T, typename R, typename... Args>
  Registry &set_body_method(R (T::*method)(Args...)) {
    return set_body_typed([method](T self, Args... args) -> R {
      return (self.*method)(std::forward<Args>(args)...);
    });
  }
  template <typename T, typename R, typename... Args>
  Registry &set_body_method(R (T::*method)(Args...) const) {
    return set_body_typed([method](T self, Args... args) -> R {
      return (self.*method)(std::forward<Args>(args)...);
    });
  }
  /* A member function of the node that a module was made of:
   * set_body_method<Module>(&Doubler::Half). */
  template <typename Ref, typename Node, typename R, typename... Args,
            typename = std::enable_if_t<std::is_base_of_v<ModuleNode, Node>>>
  Registry &set_body_method(R (Node::*method)(Args...)) {
    return set_body_typed([method, name = name_](Ref self, Args... args) -> R {
      return (NodeOf<Node>(self, name)->*method)(std::forward<Args>(args)...);
    });
  }
  template <typename Ref, typename Node, typename R, typename... Args,
            typename = std::enable_if_t<std::is_base_of_v<ModuleNode, Node>>>
  Registry &set_body_method(R (Node::*method)(Args...) const) {
    return set_body_typed([method, name = name_](Ref self, Args... args) -> R {
      return (NodeOf<Node>(self, name)->*method)(std::forward<Args>(args)...);
    });
  }

  /* The function, or null. The pointer is good until Remove(name). */
  static const PackedFunc *Get(const std::string &name) {
    PackedFunc found = Find(name);
    if (!found.defined()) return nullptr;
    const std::lock_guard<std::mutex> lock(State().mutex);
    auto &given = State().given[name]; /* more than one where a function was replaced */
    for (const std::unique_ptr<PackedFunc> &known : given)
      if (known->same_as(found)) return known.get();
    given.push_back(std::make_unique<PackedFunc>(std::move(found)));
    return given.back().get();
  }
  /* True if there was one. */
  static bool Remove(const std::string &name) {
    if (!Find(name).defined()) return false;
    detail::CheckCall(TVMFuncRemoveGlobal(name.c_str()));
    std::vector<std::unique_ptr<PackedFunc>> given;
    std::unique_ptr<Registry> entry;
    const std::lock_guard<std::mutex> lock(State().mutex);
    given.swap(State().given[name]);
    entry.swap(State().entries[name]);
    State().given.erase(name);
    State().entries.erase(name);
    return true;
  }
  static std::vector<String> ListNames() {
    int count = 0;
    const char **names = nullptr;
    detail::CheckCall(TVMFuncListGlobalNames(&count, &names));
    return std::vector<String>(names, names + count);
  }

 private:
  struct Tables {
    std::mutex mutex;
    std::map<std::string, std::unique_ptr<Registry>> entries;
    std::map<std::string, std::vector<std::unique_ptr<PackedFunc>>> given;
  };
  template <typename Node>
  static Node *NodeOf(const Module &module, const std::string &name) {
    Node *node = module.as<Node>();
    if (!node) throw InternalError(name + ": argument 0: the module is made of another class");
    return node;
  }
  /* Never destroyed: functions may be looked up while the process ends. */
  static Tables &State() {
    static Tables *const tables = new Tables;
    return *tables;
  }
  static PackedFunc Find(const std::string &name) {
    TVMFunctionHandle handle = nullptr;
    detail::CheckCall(TVMFuncGetGlobal(name.c_str(), &handle));
    return PackedFunc(detail::Owned{handle});
  }
  explicit Registry(std::string name) : name_(std::move(name)) {}

  const std::string name_;
};

MBLOB_FACE_END

/* TVM_REGISTER_GLOBAL("name").set_body_typed([](int x) { return x + 1; }); */
#define TVM_FUNC_REG_VAR_DEF static TVM_ATTRIBUTE_UNUSED ::tvm::runtime::Registry &mblob_registered_
#define TVM_REGISTER_GLOBAL(name) \
  TVM_STR_CONCAT(TVM_FUNC_REG_VAR_DEF, __COUNTER__) = ::tvm::runtime::Registry::Register(name)

#define TVM_STRINGIZE_DETAIL(x) #x
#define TVM_STRINGIZE(x) TVM_STRINGIZE_DETAIL(x)
#define TVM_ADD_FILELINE "\n\nDefined in " __FILE__ ":L" TVM_STRINGIZE(__LINE__)

#endif /* TVM_RUNTIME_REGISTRY_H_ */
