#include "worker/data/text_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TextDatasetTest : public testing::Test {
 protected:
  TextDatasetTest()
      : folder_(testing::TempDir() + "/text_dataset_" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  static std::vector<int64_t> Read(const Dataset& dataset, int64_t first, int64_t count) {
    std::vector<int64_t> tokens(count);
    dataset.Read(first, absl::MakeSpan(tokens));
    return tokens;
  }

  const std::string folder_;
};

TEST_F(TextDatasetTest, ReadsAFile) {
  const auto dataset = TextDataset::Open(Write("a", "h\xFFllo"), 256).value();
  EXPECT_EQ(dataset->tokens(), 5);
  EXPECT_THAT(Read(*dataset, 0, 3), ElementsAre('h', 255, 'l'));
}

TEST_F(TextDatasetTest, JoinsTheFilesOfAFolderByName) {
  Write("b", "34");
  Write("a", "12");
  Write("c", "");
  Write("d", "5");
  std::filesystem::create_directory(folder_ + "/aa");  // Not a regular file: left out.
  const auto dataset = TextDataset::Open(folder_, 256).value();
  EXPECT_EQ(dataset->tokens(), 5);
  EXPECT_THAT(Read(*dataset, 0, 5), ElementsAre('1', '2', '3', '4', '5'));
  EXPECT_THAT(Read(*dataset, 1, 2), ElementsAre('2', '3'));
  EXPECT_THAT(Read(*dataset, 4, 1), ElementsAre('5'));
  EXPECT_TRUE(Read(*dataset, 5, 0).empty());
}

TEST_F(TextDatasetTest, RefusesAMissingPath) {
  const absl::Status status = TextDataset::Open(folder_ + "/none", 256).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/none"));
}

TEST_F(TextDatasetTest, RefusesNoText) {
  EXPECT_EQ(TextDataset::Open(folder_, 256).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TextDataset::Open(Write("empty", ""), 256).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TextDatasetTest, NamesAByteOutsideTheVocabulary) {
  EXPECT_TRUE(TextDataset::Open(Write("ascii", "\x7F"), 128).ok());
  const absl::Status status = TextDataset::Open(Write("latin", "abc\x80"), 128).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("byte 128 at offset 3"));
}

}  // namespace
}  // namespace longhaul
