// The same in C++17: owners that release, errors as exceptions. Prints the tree of modules first.
#include <mblob.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

struct Release {
  void operator()(mblob_module *module) const { mblob_module_release(module); }
};
using Module = std::unique_ptr<mblob_module, Release>;

void check(int status) {
  if (status != MBLOB_OK) throw std::runtime_error(mblob_last_error());
}

Module open(const char *path) {
  mblob_module *module = nullptr;
  check(mblob_open(path, nullptr, &module));
  return Module(module);
}

// Modules may be shared and nested deeply: each is unfolded once, with a stack instead of
// recursion.
void print_tree(const mblob_module *root) {
  std::set<const mblob_module *> seen;
  std::vector<std::pair<const mblob_module *, int>> stack{{root, 0}};
  while (!stack.empty()) {
    const auto [module, depth] = stack.back();
    stack.pop_back();
    std::printf("%*s%s\n", 2 * depth, "", mblob_module_type_key(module));
    if (!seen.insert(module).second) continue;
    for (std::size_t i = mblob_module_import_count(module); i-- > 0;)
      stack.emplace_back(mblob_module_import_at(module, i), depth + 1);
  }
}

}  // namespace

int main(int argc, char **argv) try {
  const Module module = open(argc > 1 ? argv[1] : "deploy.so");
  print_tree(module.get());
  const std::vector<float> a{1, 2, 3}, b{10, 20, 30};
  std::vector<float> c(3);
  const auto n = static_cast<std::int64_t>(c.size());
  check(mblob_call(module.get(), "vadd", "float32[*],float32[*],float32[*],int64", n, a.data(), n,
                   b.data(), n, c.data(), n));
  for (const float x : c) std::printf("%g\n", static_cast<double>(x));
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
