#include "common/hf/hf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/hf/hf_config.h"
#include "common/hf/hf_parameters.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

constexpr char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef\nsize 988097824\n";
constexpr char kConfig[] = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 48,
    "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0})";

class HfModelTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.Join(name), std::ios::binary) << bytes;
  }
  std::string Error() {
    const absl::StatusOr<HfModel> model = OpenHfModel(folder_.path());
    EXPECT_FALSE(model.ok());
    return std::string(model.status().message());
  }
  TempDir folder_;
};

TEST_F(HfModelTest, APointerInPlaceOfAFileIsNamed) {
  Write("config.json", kPointer);
  EXPECT_TRUE(IsHfFolder(folder_.path()));
  EXPECT_THAT(Error(), HasSubstr("config.json: is a Git LFS pointer in place of the file: run `git "
                                 "lfs pull` in its folder"));
  Write("config.json", kConfig);
  Write("model.safetensors.index.json", kPointer);
  EXPECT_THAT(Error(), HasSubstr("index.json: is a Git LFS pointer"));
  Write("model.safetensors", kPointer);
  EXPECT_THAT(Error(), HasSubstr("model.safetensors: is a Git LFS pointer"));
}

TEST_F(HfModelTest, ALinkWithoutItsTargetIsNamed) {
  const auto link = [&](const char* name, const char* target) {
    std::filesystem::create_symlink(target, folder_.Join(name));
  };
  Write("config.json", kConfig);
  link("model.safetensors", "../../blobs/w0");
  EXPECT_THAT(Error(),
              HasSubstr("model.safetensors: it is a link to ../../blobs/w0, which does not "
                        "exist"));
  EXPECT_THAT(std::string(HfFilesOf(folder_.path()).status().message()),
              HasSubstr("model.safetensors: it is a link to ../../blobs/w0"));
  std::filesystem::remove(folder_.Join("config.json"));
  link("config.json", "../../blobs/c0");
  EXPECT_TRUE(IsHfFolder(folder_.path()));
  EXPECT_THAT(Error(), HasSubstr("config.json: it is a link to ../../blobs/c0"));
}

}  // namespace
}  // namespace longhaul
