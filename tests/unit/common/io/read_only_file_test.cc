#include "common/io/read_only_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

class ReadOnlyFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    const std::string path = folder_.Join(name);
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  const TempDir folder_;
};

TEST_F(ReadOnlyFileTest, ReadsAnyPart) {
  ReadOnlyFile opened = ReadOnlyFile::Open(Write("a", "0123456789")).value();
  const ReadOnlyFile file(std::move(opened));
  EXPECT_EQ(file.size(), 10);
  uint8_t three[3];
  ASSERT_TRUE(file.Read(7, three).ok());
  EXPECT_THAT(three, testing::ElementsAre('7', '8', '9'));
  EXPECT_TRUE(file.Read(10, {}).ok());
  EXPECT_EQ(*ReadRegularFile(file.path(), 10), "0123456789");
}

TEST_F(ReadOnlyFileTest, AFileThatBecameShorterIsAnError) {
  const std::string path = Write("a", "0123456789");
  const ReadOnlyFile file = ReadOnlyFile::Open(path).value();
  std::filesystem::resize_file(path, 8);
  uint8_t three[3];
  EXPECT_TRUE(file.Read(5, three).ok());
  const absl::Status cut = file.Read(6, three);
  EXPECT_TRUE(absl::IsDataLoss(cut)) << cut;
  EXPECT_THAT(std::string(cut.message()), HasSubstr("ends at byte 8 now; it had 10"));
  // A read that begins behind the end names the same.
  EXPECT_THAT(std::string(file.Read(9, absl::MakeSpan(three, 1)).message()),
              HasSubstr("ends at byte 8 now; it had 10"));
}

TEST_F(ReadOnlyFileTest, OtherThingsAreRefused) {
  EXPECT_TRUE(absl::IsNotFound(ReadOnlyFile::Open(folder_.Join("none")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadOnlyFile::Open(folder_.path()).status()));
  const std::string pipe = folder_.Join("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadOnlyFile::Open(pipe).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadRegularFile(Write("a", "four"), 3).status()));
}

TEST_F(ReadOnlyFileTest, TooManyOpenFilesAreNoLackOfMemory) {
  const std::string path = Write("a", "a");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status refused = ReadOnlyFile::Open(path).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("Too many open files"));
}

TEST_F(ReadOnlyFileTest, TheDigestOfAFileIsThatOfItsBytes) {
  // None, a few, and more than one piece.
  for (const int64_t bytes : {0, 10, 3'000'001}) {
    std::string content(bytes, 'a');
    if (bytes > 0) content.back() = 'b';
    const ReadOnlyFile file = ReadOnlyFile::Open(Write("a", content)).value();
    EXPECT_EQ(DigestOfFile(file).value(), DigestOf(content));
  }
}

}  // namespace
}  // namespace longhaul
