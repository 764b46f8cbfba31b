// What the units of test_face share.
#pragma once

#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <cstdlib>
#include <iostream>
#include <string>

#define REQUIRE(condition)                                                         \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::cerr << __FILE__ << ':' << __LINE__ << ": " << #condition << std::endl; \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)

// The text of the `E` that `f` throws; "" if it throws none.
template <typename E = tvm::runtime::InternalError, typename F>
std::string Thrown(F &&f) {
  try {
    f();
  } catch (const E &error) {
    return error.what();
  }
  return "";
}

inline bool Has(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

// second_unit.cpp: the same headers in another translation unit.
const tvm::runtime::PackedFunc *FindFromSecondUnit(const char *name);
tvm::runtime::NDArray OnesFromSecondUnit(int64_t size);
void ThrowFromSecondUnit(const tvm::runtime::PackedFunc &function);

void TestValues();
void TestArrays();
void TestContainers();
void TestStreams();
void TestNames();
void TestNodes(const tvm::runtime::Module &module);
void TestFunctions(const tvm::runtime::Module &module);
void TestErrors(const tvm::runtime::Module &module);
void TestThreads(const tvm::runtime::Module &module);
