#include "worker/data/token_file_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace longhaul {
namespace {

using testing::HasSubstr;

std::string WriteTokens(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/token_file_" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(TokenFileDatasetTest, ReadsLittleEndianTokens) {
  const auto dataset =
      TokenFileDataset::Open(WriteTokens("three", std::string("\1\0\2\1\xFF\xFF", 6)), 65536)
          .value();
  ASSERT_EQ(dataset->tokens(), 3);
  std::vector<int64_t> tokens(2);
  dataset->Read(1, absl::MakeSpan(tokens));
  EXPECT_THAT(tokens, testing::ElementsAre(258, 65535));
}

TEST(TokenFileDatasetTest, RefusesAMissingFile) {
  const absl::Status status = TokenFileDataset::Open("/nowhere/train.bin", 50257).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/train.bin"));
}

TEST(TokenFileDatasetTest, RefusesAnEmptyFileAndAnOddSize) {
  absl::Status status = TokenFileDataset::Open(WriteTokens("empty", ""), 256).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("empty"));
  status = TokenFileDataset::Open(WriteTokens("odd", "abc"), 65536).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("odd size"));
}

TEST(TokenFileDatasetTest, NamesATokenOutsideTheVocabulary) {
  const std::string path = WriteTokens("large", std::string("\1\0\2\0\3\0", 6));
  EXPECT_TRUE(TokenFileDataset::Open(path, 4).ok());
  const absl::Status status = TokenFileDataset::Open(path, 3).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("token 3 at offset 2"));
}

}  // namespace
}  // namespace longhaul
