#include "common/checkpoint/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/config/transformer_spec.h"
#include "common/io/posix_filesystem.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/store/checkpoint.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

const TransformerShape kShape{.layers = 3,
                              .dim = 8,
                              .heads = 2,
                              .kv_heads = 1,
                              .ff_dim = 12,
                              .context = 16,
                              .vocab = 20,
                              .qk_norm = true};

// Written by the coordinator's own writer. Element i of fragment f is 1000 f + i; the first may be
// another value.
class CheckpointFolderTest : public testing::Test {
 protected:
  void Write(
      const std::function<void(v1::CheckpointManifest&)>& change = [](auto&) {},
      std::optional<float> first = std::nullopt) {
    v1::CheckpointManifest manifest;
    manifest.set_job_name("job");
    manifest.set_step(30);
    *manifest.mutable_model()->mutable_transformer() = SpecOf(kShape);
    const auto fragments = CutFragments(layout_, {.count = 2}).value();
    for (size_t f = 0; f < fragments.size(); ++f) {
      for (const UnitSpan& span : fragments[f].units) {
        for (const TensorLayout& layout : layout_.units[span.unit].tensors) {
          v1::CheckpointTensor& tensor = *manifest.add_tensors();
          tensor.set_name(layout.name);
          tensor.mutable_shape()->Assign(layout.shape.begin(), layout.shape.end());
          tensor.set_fragment(static_cast<int32_t>(f));
          tensor.set_offset(span.offset + layout.offset);
          firsts_[layout.name] = 1000.0f * f + tensor.offset();
        }
      }
    }
    change(manifest);
    const auto fs = MakePosixFileSystem();
    ASSERT_TRUE(fs->CreateDir(folder_.path() + "/checkpoints").ok());
    auto writer = CheckpointWriter::Begin(fs.get(), folder_.path(), manifest);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (size_t f = 0; f < fragments.size(); ++f) {
      std::vector<float> values(fragments[f].elements);
      std::iota(values.begin(), values.end(), 1000.0f * f);
      values[0] = first.value_or(values[0]);
      ASSERT_TRUE(writer->AddFragment(3, DigestOf(BytesOf(values)), values).ok());
    }
    ASSERT_TRUE(writer->Finish(3).ok());
  }
  std::string Path() const { return folder_.path() + "/checkpoints/step-00000030"; }
  absl::Status ErrorOf() { return CheckpointFolder::Open(Path()).status(); }

  const TempDir folder_;
  const ModelLayout layout_ = LayOutTransformer(kShape).value();
  std::map<std::string, float> firsts_;
};

TEST_F(CheckpointFolderTest, ReadsEveryTensor) {
  Write();
  EXPECT_TRUE(CheckpointFolder::IsOne(Path()));
  EXPECT_FALSE(CheckpointFolder::IsOne(folder_.path()));
  const auto checkpoint = CheckpointFolder::Open(Path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->shape().layers, 3);
  for (int unit = 0; unit < static_cast<int>(layout_.units.size()); ++unit) {
    for (const TensorLayout& tensor : layout_.units[unit].tensors) {
      std::vector<float> values(tensor.elements - 1);
      ASSERT_TRUE((*checkpoint)->Read(unit, tensor.offset + 1, absl::MakeSpan(values)).ok());
      EXPECT_EQ(values.front(), firsts_[tensor.name] + 1) << tensor.name;
      EXPECT_EQ(values.back(), firsts_[tensor.name] + tensor.elements - 1) << tensor.name;
    }
  }
}

TEST_F(CheckpointFolderTest, DamageIsFound) {
  Write();
  std::fstream file(Path() + "/fragment-001.f32", std::ios::in | std::ios::out);
  file.seekp(100);
  file.put('x');
  file.close();
  EXPECT_TRUE(absl::IsDataLoss(ErrorOf()));
  std::ofstream(Path() + "/fragment-001.f32") << "abc";
  EXPECT_THAT(ErrorOf().message(), HasSubstr("has 3 bytes"));
  std::filesystem::remove(Path() + "/fragment-001.f32");
  EXPECT_TRUE(absl::IsNotFound(ErrorOf()));
}

// Somebody writes a new version in its place, or the disk that it is on goes away.
TEST_F(CheckpointFolderTest, AFileThatIsCutWhileItIsReadIsAnError) {
  Write();
  const auto checkpoint = CheckpointFolder::Open(Path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  for (const auto& entry : std::filesystem::directory_iterator(Path())) {
    if (entry.path().extension() == ".f32") std::filesystem::resize_file(entry.path(), 0);
  }
  float value = 0;
  const absl::Status cut = (*checkpoint)->Read(0, 0, absl::MakeSpan(&value, 1));
  EXPECT_TRUE(absl::IsDataLoss(cut)) << cut;
  EXPECT_THAT(cut.message(), HasSubstr(".f32 ends at byte "));
}

TEST_F(CheckpointFolderTest, RefusesValuesThatAreNotFinite) {
  Write([](auto&) {}, -std::numeric_limits<float>::infinity());
  const auto checkpoint = CheckpointFolder::Open(Path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto& [name, first] = *std::find_if(firsts_.begin(), firsts_.end(),
                                            [](const auto& entry) { return entry.second == 0; });
  absl::Status status;
  for (int unit = 0; unit < static_cast<int>(layout_.units.size()); ++unit) {
    std::vector<float> values(layout_.units[unit].elements);
    status.Update((*checkpoint)->Read(unit, 0, absl::MakeSpan(values)));
  }
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("fragment-000.f32: ", name)));
  EXPECT_THAT(status.message(), HasSubstr("has values that are not finite"));
}

TEST_F(CheckpointFolderTest, RefusesAManifestWithoutItsModel) {
  Write([](v1::CheckpointManifest& manifest) { manifest.clear_model(); });
  EXPECT_TRUE(absl::IsFailedPrecondition(ErrorOf()));
  EXPECT_THAT(ErrorOf().message(), HasSubstr("does not name the model"));
}

TEST_F(CheckpointFolderTest, RefusesAnImpossibleModel) {
  Write([](v1::CheckpointManifest& m) { m.mutable_model()->mutable_transformer()->set_heads(-1); });
  EXPECT_THAT(ErrorOf().message(), HasSubstr("model.transformer.heads"));
}

TEST_F(CheckpointFolderTest, TensorsThatDoNotFit) {
  Write([](v1::CheckpointManifest& m) { m.mutable_tensors(2)->set_offset(int64_t{1} << 62); });
  EXPECT_THAT(ErrorOf().message(), HasSubstr("lies outside of its fragment"));
}

TEST_F(CheckpointFolderTest, AnotherFragment) {
  Write([](v1::CheckpointManifest& m) { m.mutable_tensors(2)->set_fragment(-1); });
  EXPECT_THAT(ErrorOf().message(), HasSubstr("lies in no fragment"));
}

TEST_F(CheckpointFolderTest, AnotherShape) {
  Write([](v1::CheckpointManifest& m) { m.mutable_tensors(2)->add_shape(1); });
  EXPECT_THAT(ErrorOf().message(), HasSubstr("a shape that is not the model's"));
}

TEST_F(CheckpointFolderTest, AMissingTensor) {
  Write([](v1::CheckpointManifest& m) { m.mutable_tensors(2)->set_name("x"); });
  EXPECT_THAT(ErrorOf().message(), HasSubstr("is missing"));
}

TEST_F(CheckpointFolderTest, RefusesOtherJson) {
  std::ofstream(folder_.path() + "/manifest.json") << "{";
  EXPECT_TRUE(absl::IsDataLoss(CheckpointFolder::Open(folder_.path()).status()));
  EXPECT_TRUE(absl::IsNotFound(CheckpointFolder::Open("/nowhere").status()));
}

}  // namespace
}  // namespace longhaul
