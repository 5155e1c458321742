#include "tests/conformance/filesystem_suite.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul {
namespace {

FileSystemUnderTest MakeMemory() {
  auto fs = std::make_shared<MemoryFileSystem>();
  return {fs, fs.get(), ""};
}

INSTANTIATE_TEST_SUITE_P(Memory, FileSystemSuite, testing::Values(&MakeMemory));

}  // namespace
}  // namespace longhaul
