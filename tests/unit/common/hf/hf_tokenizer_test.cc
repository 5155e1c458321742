#include "common/hf/hf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

class HfTokenizerTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_.Join(name)) << text;
  }
  std::string End() {
    const absl::StatusOr<DeclaredEnd> declared = ReadDeclaredEnd(dir_.path());
    if (!declared.ok()) return std::string(declared.status().message());
    return declared->any() ? declared->Describe() : "none";
  }
  std::string Digest() {
    const absl::StatusOr<std::string> digest = DigestOfTokenizer(dir_.path());
    return digest.ok() ? *digest : std::string(digest.status().message());
  }

  const TempDir dir_;
};

TEST_F(HfTokenizerTest, TheEndThatAFolderDeclares) {
  EXPECT_EQ(End(), "none");
  Write("config.json", R"({"eos_token_id": 7})");
  EXPECT_EQ(End(), "id 7");
  Write("generation_config.json", R"({"eos_token_id": [5, 6]})");
  EXPECT_EQ(End(), "id 5");
  Write("tokenizer_config.json", R"({"eos_token": "<|eos|>"})");
  EXPECT_EQ(End(), "'<|eos|>' (id 5)");
  Write("tokenizer_config.json", R"({"eos_token": {"content": "</s>", "special": true}})");
  EXPECT_EQ(End(), "'</s>' (id 5)");
  Write("tokenizer_config.json", R"({"eos_token": null})");
  EXPECT_EQ(End(), "id 5");
  // Of a file it is what its folder declares.
  Write("tokenizer.json", "{}");
  EXPECT_EQ(ReadDeclaredEnd(dir_.Join("tokenizer.json"))->id, 5);
}

TEST_F(HfTokenizerTest, MalformedFilesAreErrorsWithTheirNames) {
  for (const char* const text : {"[", "[]", R"({"eos_token": 3})", R"({"eos_token": {"a": 1}})"}) {
    Write("tokenizer_config.json", text);
    EXPECT_THAT(End(), HasSubstr("tokenizer_config.json: ")) << text;
  }
  Write("tokenizer_config.json", "{}");
  Write("generation_config.json", R"({"eos_token_id": "x"})");
  EXPECT_THAT(End(), HasSubstr("generation_config.json: eos_token_id"));
}

TEST_F(HfTokenizerTest, TheDigestOfAChatTemplateIsThatOfWhatRenders) {
  const auto digest = [&] {
    const auto found = DigestOfChatTemplate(dir_.Join(""));
    return found.ok() ? *found : std::string(found.status().message());
  };
  EXPECT_TRUE(absl::IsNotFound(DigestOfChatTemplate(dir_.Join("")).status()));
  Write("tokenizer_config.json", R"({"chat_template": null, "eos_token": "x"})");
  EXPECT_THAT(digest(), HasSubstr("has no chat template"));
  Write("tokenizer_config.json", R"({"chat_template": "a", "eos_token": "x"})");
  const std::string first = digest();
  EXPECT_EQ(first.size(), 64u);
  // Neither its layout nor what does not render.
  Write("tokenizer_config.json",
        R"({"model_max_length": 3, "eos_token": "x",   "chat_template": "a"})");
  EXPECT_EQ(digest(), first);
  Write("tokenizer_config.json", R"({"chat_template": "a", "eos_token": "y"})");
  EXPECT_NE(digest(), first);
  Write("tokenizer_config.json", R"({"chat_template": "b", "eos_token": "x"})");
  const std::string second = digest();
  EXPECT_NE(second, first);
  Write("special_tokens_map.json", R"({"bos_token": "z"})");
  EXPECT_NE(digest(), second);
  // The file of its own counts before the other.
  Write("chat_template.jinja", "a");
  const std::string own = digest();
  Write("tokenizer_config.json", R"({"chat_template": "c", "eos_token": "x"})");
  EXPECT_EQ(digest(), own);
  Write("tokenizer_config.json", "[");
  EXPECT_THAT(digest(), HasSubstr("tokenizer_config.json: "));
}

TEST_F(HfTokenizerTest, TheDigestIsThatOfWhatMakesTokens) {
  EXPECT_THAT(Digest(), HasSubstr("neither tokenizer.json nor tokenizer.model"));
  Write("tokenizer.model", "a");
  const std::string piece = Digest();
  Write("tokenizer.json", "a");
  const std::string hf = Digest();
  EXPECT_NE(piece, hf);
  EXPECT_EQ(hf.size(), 64u);
  Write("tokenizer_config.json", R"({"chat_template": "x"})");
  EXPECT_EQ(Digest(), hf);
  Write("tokenizer_config.json", R"({"eos_token": "x"})");
  EXPECT_NE(Digest(), hf);
  Write("tokenizer_config.json", "{}");
  Write("tokenizer.json", "b");
  EXPECT_NE(Digest(), hf);
  Write("tokenizer.json", "a");
  EXPECT_EQ(Digest(), hf);
  Write("tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 5\n");
  EXPECT_THAT(Digest(), HasSubstr("tokenizer.json: is a Git LFS pointer"));
}

TEST_F(HfTokenizerTest, WhatBelongsToATokenizer) {
  for (const char* const name : {"config.json", "model.safetensors", "tokenizer.json", "README.md",
                                 "generation_config.json", "chat_template.jinja"})
    Write(name, "{}");
  std::filesystem::create_symlink("../blobs/0a1b", dir_.Join("special_tokens_map.json"));
  // Who reads a link without its target says so.
  EXPECT_THAT(TokenizerFilesOf(dir_.path()),
              ::testing::UnorderedElementsAre("tokenizer.json", "generation_config.json",
                                              "chat_template.jinja", "special_tokens_map.json"));
}

}  // namespace
}  // namespace longhaul
