#include <sys/stat.h>

#include <string>

#include "common/io/posix_filesystem.h"
#include "gmock/gmock.h"
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

// Reading from it would block until somebody writes.
TEST(PosixFileSystemTest, APipeIsNotOpened) {
  const TempDir dir;
  const std::string pipe = dir.Join("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0444), 0);
  const auto file = MakePosixFileSystem()->Open(pipe);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(file.status().message(), testing::HasSubstr(pipe));
}

INSTANTIATE_TEST_SUITE_P(Posix, FileSystemSuite, testing::Values(&MakePosix));

}  // namespace
}  // namespace longhaul
