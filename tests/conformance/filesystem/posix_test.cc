#include "common/io/posix_filesystem.h"
#include "tests/conformance/filesystem_suite.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

struct Owner {
  std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  TempDir dir;
};

FileSystemUnderTest MakePosix() {
  auto owner = std::make_shared<Owner>();
  return {owner, owner->fs.get(), owner->dir.path()};
}

INSTANTIATE_TEST_SUITE_P(Posix, FileSystemSuite, testing::Values(&MakePosix));

}  // namespace
}  // namespace longhaul
