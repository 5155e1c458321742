#include "common/io/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
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

// Pages of files that this process has mapped and touched.
int64_t FilePagesKb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kb = 0;
    if (word == "RssFile:" && status >> kb) return kb;
  }
  return -1;
}

TEST(MappedFileTest, WhatIsReleasedIsNoMemoryOfTheProcessAndStaysReadable) {
  constexpr size_t kPart = 100'000;
  std::string content(20 << 20, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 >> 3);
  const MappedFile file = MappedFile::Open(Write("large", content)).value();
  const int64_t before = FilePagesKb();
  ASSERT_GE(before, 0);
  for (int round = 0; round < 2; ++round) {
    int64_t most = 0;
    for (size_t at = 0; at < content.size(); at += kPart) {
      const absl::Span<const uint8_t> part = file.bytes().subspan(at, kPart);
      ASSERT_EQ(std::memcmp(part.data(), content.data() + at, part.size()), 0) << at;
      file.Release(part);
      most = std::max(most, FilePagesKb());
    }
    EXPECT_LT(most - before, 2048);
  }
  file.Release({});
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
