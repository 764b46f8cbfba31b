// Cases that a program runs by name: CASE(Suite, Name) { ... EXPECT(condition); }
#pragma once

#include <tvm/runtime/logging.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

using Case = void (*)();

inline std::map<std::string, Case> &Cases() {
  static std::map<std::string, Case> cases;
  return cases;
}

struct Registration {
  Registration(const char *name, Case run) { Cases()[name] = run; }
};

#define CASE(suite, name)                                                                  \
  static void suite##_##name();                                                            \
  static const Registration registered_##suite##_##name(#suite "." #name, suite##_##name); \
  static void suite##_##name()

#define EXPECT(...)                                                             \
  do {                                                                          \
    if (!(__VA_ARGS__)) {                                                       \
      std::cerr << __FILE__ << ':' << __LINE__ << ": " << #__VA_ARGS__ << '\n'; \
      std::exit(1);                                                             \
    }                                                                           \
  } while (0)

// The text of the E that `f` throws; it must throw one.
template <typename E = tvm::runtime::InternalError, typename F>
std::string Thrown(const F &f) {
  try {
    f();
  } catch (const E &error) {
    return error.what();
  }
  std::cerr << "nothing was thrown\n";
  std::exit(1);
}

inline bool Has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}
