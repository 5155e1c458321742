#include "common/io/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

std::string Write(const std::string& name, const std::string& content) {
  const std::string path = testing::TempDir() + "/mapped_file_test_" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(MappedFileTest, HoldsTheBytes) {
  const auto file = MappedFile::Open(Write("abc", "abc"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->bytes(), testing::ElementsAre('a', 'b', 'c'));
}

TEST(MappedFileTest, MapsAnEmptyFile) {
  const auto file = MappedFile::Open(Write("empty", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFileTest, SurvivesMoves) {
  MappedFile first = MappedFile::Open(Write("first", "1")).value();
  MappedFile second = MappedFile::Open(Write("second", "22")).value();
  const MappedFile moved(std::move(first));
  second = MappedFile::Open(Write("third", "333")).value();
  EXPECT_EQ(moved.bytes().size(), 1u);
  EXPECT_EQ(second.bytes().size(), 3u);
}

TEST(MappedFileTest, RefusesWhatIsNotAFile) {
  EXPECT_EQ(MappedFile::Open("/nowhere/file").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument);
  // A pipe is not waited for, and a loop of links leads nowhere.
  const TempDir folder;
  ASSERT_EQ(mkfifo(folder.Join("pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(folder.Join("pipe")).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(symlink("loop", folder.Join("loop").c_str()), 0);
  for (const char* name : {"loop", "loop/file"})
    EXPECT_EQ(MappedFile::Open(folder.Join(name)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(Write("file", "") + "/in").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace longhaul
