// test_face DIRECTORY: the C++ face of TVM's runtime over TVM's C API; DIRECTORY has the libraries
// of tests/c.
#include "test_face.h"

int main(int argc, char **argv) {
  REQUIRE(argc == 2);
  const std::string library = std::string(argv[1]) + "/plain.so",
                    other = std::string(argv[1]) + "/table.so";
  REQUIRE(setenv("TEST_LIBRARY", other.c_str(), 1) == 0);
  try {
    TestValues();
    TestArrays();
    const tvm::runtime::Module module = tvm::runtime::Module::LoadFromFile(library);
    TestContainers();
    TestStreams();
    TestNames();
    TestNodes(module);
    TestFunctions(module);
    TestErrors(module);
    TestThreads(module);
  } catch (const std::exception &error) {
    std::cerr << "test_face: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}
