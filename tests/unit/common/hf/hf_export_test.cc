#include "common/hf/hf_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/hf/hf_parameters.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "nlohmann/json.hpp"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const TransformerShape kShape{
    .layers = 2, .dim = 8, .heads = 2, .kv_heads = 1, .ff_dim = 12, .context = 16, .vocab = 20};

// Element i of a unit is unit + i / 1024. No 16-bit type represents all of them exactly; float32
// does.
class Ramp : public InitialParameters {
 public:
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const override {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(unit) + static_cast<float>(offset + i) / 1024;
    out[0] = std::min(out[0], limit);
    return absl::OkStatus();
  }
  float limit = std::numeric_limits<float>::max();
};

class HfExportTest : public testing::Test {
 protected:
  absl::StatusOr<HfExport> Write(const std::string& name, HfExportOptions options = {}) {
    options.config.shape = kShape;
    return ExportHf(*fs_, layout_, Ramp(), options, Path(name));
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  const TempDir folder_;
  const ModelLayout layout_ = LayOutTransformer(kShape).value();
  const std::unique_ptr<FileSystem> fs_ = MakePosixFileSystem();
};

TEST_F(HfExportTest, ReadsWhatItWroteInAnyPieces) {
  const auto done = Write("m", {.type = ElementType::kF32, .file_bytes_max = 2000});
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_GT(done->files, 2);
  EXPECT_THAT(*fs_->List(Path("m")), Contains("model.safetensors.index.json"));
  const auto parameters = OpenHfParameters(Path("m"), layout_);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  for (int unit = 0; unit < static_cast<int>(layout_.units.size()); ++unit) {
    const int64_t elements = layout_.units[unit].elements;
    for (const int64_t first : {int64_t{0}, elements / 3, elements - 1}) {
      std::vector<float> read(elements - first), wanted(elements - first);
      ASSERT_TRUE((*parameters)->Read(unit, first, absl::MakeSpan(read)).ok());
      ASSERT_TRUE(Ramp().Read(unit, first, absl::MakeSpan(wanted)).ok());
      EXPECT_EQ(read, wanted);
    }
  }
}

TEST_F(HfExportTest, OneFileInBf16) {
  const auto done = Write("m");
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->files, 1);
  EXPECT_EQ(done->bytes, 2 * layout_.elements());
  EXPECT_THAT(*fs_->List(Path("m")),
              ElementsAre("config.json", "generation_config.json", "model.safetensors"));
  EXPECT_THAT(DifferencesFrom(*ReadHfConfig(Path("m")), kShape), IsEmpty());
  EXPECT_TRUE(absl::IsAlreadyExists(Write("m").status()));
}

TEST_F(HfExportTest, AFileInThePlaceOfTheFolderIsSeenBeforeAnythingIsWritten) {
  std::ofstream(Path("m")) << "notes";
  const absl::Status status = Write("m").status();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(*fs_->List(folder_.path()), ElementsAre("m"));
}

TEST_F(HfExportTest, TokenizerAndTokensAreCarriedAlong) {
  ASSERT_TRUE(Write("like").ok());
  HfConfig config{.shape = kShape, .eos = "[2, 7]"};
  std::ofstream(Path("like/config.json")) << WriteHfConfig(config, ElementType::kF32);
  std::ofstream(Path("like/tokenizer.json")) << "{}";
  const auto done = Write("m", {.like = Path("like")});
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_THAT(done->carried, ElementsAre("tokenizer.json", "generation_config.json"));
  EXPECT_EQ(ReadHfConfig(Path("m"))->eos, "[2,7]");
  EXPECT_TRUE(absl::IsInvalidArgument(Write("n", {.like = Path("none")}).status()));
}

TEST_F(HfExportTest, WhatWasAMistralIsExportedAsOne) {
  ASSERT_TRUE(Write("like").ok());
  HfConfig config{.shape = kShape, .mistral = true};
  std::ofstream(Path("like/config.json")) << WriteHfConfig(config, ElementType::kF32);
  ASSERT_TRUE(Write("m", {.like = Path("like")}).ok());
  EXPECT_TRUE(ReadHfConfig(Path("m"))->mistral);
  // The tokenizer of another model says nothing of this one.
  config.shape.ff_dim += 8;
  std::ofstream(Path("like/config.json")) << WriteHfConfig(config, ElementType::kF32);
  ASSERT_TRUE(Write("n", {.like = Path("like")}).ok());
  EXPECT_FALSE(ReadHfConfig(Path("n"))->mistral);
}

TEST_F(HfExportTest, AFullDiskLeavesNothing) {
  for (int64_t operation = 0;; operation += 2) {
    FailingFileSystem failing(fs_.get());
    failing.FailOnce(operation, absl::ResourceExhaustedError("full"));
    HfExportOptions options{.file_bytes_max = 1000};
    options.config.shape = kShape;
    const auto done = ExportHf(failing, layout_, Ramp(), options, Path("m"));
    if (done.ok()) break;
    EXPECT_TRUE(absl::IsResourceExhausted(done.status()));
    EXPECT_FALSE(std::filesystem::exists(Path("m.tmp")));
    // If the folder has its name, only the durability of the name can be uncertain.
    if (std::filesystem::exists(Path("m"))) {
      EXPECT_TRUE(OpenHfParameters(Path("m"), layout_).ok());
      std::filesystem::remove_all(Path("m"));
    }
    ASSERT_LT(operation, 1000);
  }
}

TEST_F(HfExportTest, AModelThatTransformersDoesNotHave) {
  HfExportOptions options{.config = {.shape = kShape}};
  options.config.shape.heads = 3;
  options.config.shape.head_dim = 4;
  EXPECT_TRUE(
      absl::IsFailedPrecondition(ExportHf(*fs_, layout_, Ramp(), options, Path("m")).status()));
}

class HfParametersTest : public HfExportTest {
 protected:
  std::string ErrorOf(const ModelLayout& layout) {
    const auto parameters = OpenHfParameters(Path("m"), layout);
    EXPECT_TRUE(absl::IsInvalidArgument(parameters.status())) << parameters.status();
    return std::string(parameters.status().message());
  }
  void WriteIndex(const std::string& text) {
    std::filesystem::create_directory(Path("m"));
    std::ofstream(Path("m/model.safetensors.index.json")) << text;
  }
};

TEST_F(HfParametersTest, TensorsThatDoNotFitAreNamed) {
  ASSERT_TRUE(Write("m").ok());
  TransformerShape other = kShape;
  other.layers = 1;
  other.qk_norm = true;
  other.vocab = 21;
  const std::string error = ErrorOf(*LayOutTransformer(other));
  EXPECT_THAT(error, HasSubstr("2 tensors missing: model.layers.0.self_attn.q_norm.weight"));
  EXPECT_THAT(error, HasSubstr("BF16[20, 8], expected F32, BF16 or F16 [21, 8]"));
  EXPECT_THAT(error, HasSubstr("9 tensors that the model does not have: model.layers.1."));
}

TEST_F(HfParametersTest, TiedEmbeddingsMayComeWithAHeadOfTheirValues) {
  TransformerShape tied = kShape;
  tied.tie_embeddings = true;
  const ModelLayout layout = *LayOutTransformer(tied);
  class Constant : public InitialParameters {
    absl::Status Read(int, int64_t, absl::Span<float> out) const override {
      std::fill(out.begin(), out.end(), 0.5F);
      return absl::OkStatus();
    }
  };
  ASSERT_TRUE(
      ExportHf(*fs_, layout_, Constant(), {.config = {.shape = kShape}}, Path("same")).ok());
  EXPECT_TRUE(OpenHfParameters(Path("same"), layout).ok());
  // Of the two names a writer may keep only the output's.
  std::filesystem::create_directory(Path("head"));
  const auto rename = [&](const char* from, const char* to) {
    std::ifstream whole(Path("same/model.safetensors"), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(whole)), {});
    uint64_t size = 0;
    std::memcpy(&size, bytes.data(), 8);
    auto header = nlohmann::ordered_json::parse(bytes.substr(8, size));
    header[to] = header[from];
    header.erase(from);
    std::string text = header.dump();
    size = text.size();
    std::ofstream out(Path("head/model.safetensors"), std::ios::binary);
    out.write(reinterpret_cast<const char*>(&size), 8);
    uint64_t data = 0;
    std::memcpy(&data, bytes.data(), 8);
    out << text << bytes.substr(8 + data);
  };
  TransformerShape small = kShape;
  small.tie_embeddings = true;
  ASSERT_TRUE(ExportHf(*fs_, layout, Ramp(), {.config = {.shape = small}}, Path("tied")).ok());
  std::filesystem::rename(Path("same"), Path("untied"));
  std::filesystem::rename(Path("tied"), Path("same"));
  rename("model.embed_tokens.weight", "lm_head.weight");
  const auto usual = OpenHfParameters(Path("same"), layout);
  const auto head = OpenHfParameters(Path("head"), layout);
  ASSERT_TRUE(usual.ok()) << usual.status();
  ASSERT_TRUE(head.ok()) << head.status();
  for (int unit = 0; unit < static_cast<int>(layout.units.size()); ++unit) {
    std::vector<float> a(layout.units[unit].elements), b(a.size(), -1);
    ASSERT_TRUE((*usual)->Read(unit, 0, absl::MakeSpan(a)).ok());
    ASSERT_TRUE((*head)->Read(unit, 0, absl::MakeSpan(b)).ok());
    EXPECT_EQ(a, b);
  }
  ASSERT_TRUE(Write("other").ok());
  EXPECT_THAT(std::string(OpenHfParameters(Path("other"), layout).status().message()),
              HasSubstr("other: lm_head.weight differs from model.embed_tokens.weight"));
}

TEST(HfEndTokensTest, AreThoseOfGeneration) {
  EXPECT_THAT(*ParseEndTokens(R"({"eos_token_id": [2, 0]})"), ElementsAre(2, 0));
  EXPECT_THAT(*ParseEndTokens(R"({"eos_token_id": 7})"), ElementsAre(7));
  EXPECT_THAT(*ParseEndTokens("{}"), IsEmpty());
  EXPECT_TRUE(absl::IsInvalidArgument(ParseEndTokens(R"({"eos_token_id": "x"})").status()));
  const TempDir folder;
  EXPECT_THAT(*ReadEndTokens(folder.path()), IsEmpty());
  std::ofstream(folder.Join("config.json")) << R"({"eos_token_id": 1})";
  EXPECT_THAT(*ReadEndTokens(folder.path()), ElementsAre(1));
  std::ofstream(folder.Join("generation_config.json")) << R"({"eos_token_id": [1, 3]})";
  EXPECT_THAT(*ReadEndTokens(folder.path()), ElementsAre(1, 3));
}

TEST_F(HfParametersTest, RefusesMalformedIndexes) {
  WriteIndex("{}");
  EXPECT_THAT(ErrorOf(layout_), HasSubstr("has no weight_map"));
  WriteIndex(R"({"weight_map": {"a": "../b"}})");
  EXPECT_THAT(ErrorOf(layout_), HasSubstr("'a' lies outside the folder"));
  WriteIndex(R"({"weight_map": {"a": 5}})");
  EXPECT_THAT(ErrorOf(layout_), HasSubstr("'a' has no file"));
  WriteIndex(R"({"weight_map": {"a": "none.safetensors"}})");
  EXPECT_TRUE(absl::IsNotFound(OpenHfParameters(Path("m"), layout_).status()));
}

// Somebody writes the file anew, or copies another one over it.
TEST_F(HfParametersTest, AFileThatIsCutOffWhileItIsReadIsAnError) {
  ASSERT_TRUE(ExportHf(*fs_, layout_, Ramp(), {.config = {.shape = kShape}}, Path("m")).ok());
  const auto parameters = OpenHfParameters(Path("m"), layout_);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  const std::string file = Path("m") + "/model.safetensors";
  const auto read = [&] {
    absl::Status status;
    for (size_t unit = 0; unit < layout_.units.size(); ++unit) {
      std::vector<float> values(layout_.units[unit].elements);
      status.Update((*parameters)->Read(static_cast<int>(unit), 0, absl::MakeSpan(values)));
    }
    return status;
  };
  ASSERT_TRUE(read().ok());
  for (const uintmax_t bytes : {std::filesystem::file_size(file) - 1, uintmax_t{100}}) {
    std::filesystem::resize_file(file, bytes);
    const absl::Status status = read();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.safetensors"));
  }
}

// Minutes, if each name were compared with all before it.
TEST_F(HfParametersTest, ReadsAnIndexOfManyTensors) {
  ASSERT_TRUE(fs_->CreateDir(Path("m")).ok());
  std::string index = R"({"weight_map":{)";
  for (int i = 0; i < 200'000; ++i)
    absl::StrAppend(&index, i == 0 ? "" : ",", "\"", i, "\":\"", i % 3, ".safetensors\"");
  ASSERT_TRUE(WriteFileAtomically(*fs_, Path("m/model.safetensors.index.json"), index + "}}").ok());
  EXPECT_THAT(*HfFilesOf(Path("m")), ElementsAre("0.safetensors", "1.safetensors", "2.safetensors",
                                                 "model.safetensors.index.json", "config.json"));
}

TEST_F(HfParametersTest, RefusesValuesThatAreNotFinite) {
  Ramp ramp;
  ramp.limit = -std::numeric_limits<float>::infinity();
  ASSERT_TRUE(ExportHf(*fs_, layout_, ramp, {.config = {.shape = kShape}}, Path("m")).ok());
  const auto parameters = OpenHfParameters(Path("m"), layout_);
  float value;
  const absl::Status status = (*parameters)->Read(0, 0, {&value, 1});
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(status.message(), HasSubstr("model.embed_tokens.weight has values"));
}

}  // namespace
}  // namespace longhaul
