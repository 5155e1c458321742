#include "coordinator/fragments/kept_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/hf/hf_tokenizer.h"
#include "common/io/posix_filesystem.h"
#include "common/io/read_only_file.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::coordinator {
namespace {

using ::testing::HasSubstr;

class KeptTokenizerTest : public ::testing::Test {
 protected:
  KeptTokenizerTest() {
    std::filesystem::create_directories(model_);
    std::filesystem::create_directories(job_);
    Write("config.json", R"({"eos_token_id": 7})");
    Write("tokenizer.json", std::string(3 << 20, 'x'));
    Write("tokenizer_config.json", "{}");
    Write("model.safetensors", "not of the tokenizer");
    digest_ = DigestOfTokenizer(model_).value();
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(model_ + "/" + name) << text;
  }
  absl::Status Keep() { return KeepTokenizer(*fs_, model_, digest_, job_); }

  const TempDir dir_;
  const std::string model_ = dir_.Join("model"), job_ = dir_.Join("jobs/1");
  const std::unique_ptr<FileSystem> fs_ = MakePosixFileSystem();
  std::string digest_;
};

TEST_F(KeptTokenizerTest, ItsFilesStayWhenTheFolderGoes) {
  ASSERT_TRUE(Keep().ok());
  std::filesystem::remove_all(model_);
  ASSERT_TRUE(Keep().ok()) << "they are there";
  const std::string kept = job_ + "/tokenizer";
  const auto files = ListTokenizer(kept, digest_);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 3u);
  EXPECT_EQ((*files)[1].name, "tokenizer.json");
  EXPECT_EQ((*files)[1].bytes, 3 << 20);
  EXPECT_EQ(*ParseListOfFiles(*ReadRegularFile(kept + "/.files", 1 << 20)), *files);
  EXPECT_EQ(ReadTokenizer(kept, "tokenizer.json", 5, 1 << 20)->size(), 1u << 20);
  EXPECT_EQ(*ReadTokenizer(kept, "tokenizer.json", (3 << 20) - 2, 1 << 20), "xx");
  EXPECT_EQ(*ReadTokenizer(kept, "tokenizer.json", 3 << 20, 1 << 20), "");
  EXPECT_TRUE(absl::IsOutOfRange(ReadTokenizer(kept, "tokenizer.json", 4 << 20, 1).status()));
  EXPECT_TRUE(absl::IsOutOfRange(ReadTokenizer(kept, "tokenizer.json", -1, 1).status()));
  for (const char* const name : {"model.safetensors", "../model", ".files", ""})
    EXPECT_TRUE(absl::IsNotFound(ReadTokenizer(kept, name, 0, 1).status())) << name;
}

TEST_F(KeptTokenizerTest, AnInterruptedCopyIsMadeAgain) {
  std::filesystem::create_directories(job_ + "/tokenizer.tmp");
  std::ofstream(job_ + "/tokenizer.tmp/tokenizer.json") << "x";
  ASSERT_TRUE(Keep().ok());
  EXPECT_FALSE(std::filesystem::exists(job_ + "/tokenizer.tmp"));
  EXPECT_TRUE(ListTokenizer(job_ + "/tokenizer", digest_).ok());
}

TEST_F(KeptTokenizerTest, AFolderThatChangedSinceIsRefused) {
  Write("tokenizer.json", "y");
  const absl::Status changed = Keep();
  EXPECT_TRUE(absl::IsInvalidArgument(changed)) << changed;
  EXPECT_THAT(std::string(changed.message()), HasSubstr("is not the one with which the job"));
  EXPECT_TRUE(absl::IsFailedPrecondition(ListTokenizer(model_, digest_).status()));
  EXPECT_FALSE(std::filesystem::exists(job_ + "/tokenizer"));
}

}  // namespace
}  // namespace longhaul::coordinator
