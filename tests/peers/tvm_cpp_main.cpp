// tvm_cpp CASE: one case of TVM 0.14's tests/cpp; without a case their names.
#include "cases.h"

int main(int argc, char **argv) {
  if (argc < 2) {
    for (const auto &one : Cases()) std::cout << one.first << '\n';
    return 0;
  }
  const auto found = Cases().find(argv[1]);
  if (found == Cases().end()) {
    std::cerr << "no case " << argv[1] << '\n';
    return 2;
  }
  try {
    found->second();
  } catch (const std::exception &error) {
    std::cerr << argv[1] << ": " << error.what() << '\n';
    return 1;
  }
  return 0;
}
