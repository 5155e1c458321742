#include "common/checkpoint/manifest.h"

#include <functional>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

v1::CheckpointManifest Sound() {
  v1::CheckpointManifest manifest;
  manifest.set_format_version(1);
  manifest.set_job_name("alpha");
  manifest.set_step(30);
  for (const int f : {0, 1}) {
    v1::CheckpointFragment& fragment = *manifest.add_fragments();
    fragment.set_fragment(f);
    fragment.set_elements(100);
    fragment.set_file(f == 0 ? "a.f32" : "b.f32");
    fragment.mutable_digest()->set_low(0xab);
  }
  v1::CheckpointTensor& tensor = *manifest.add_tensors();
  tensor.set_name("w");
  tensor.add_shape(9);
  tensor.add_shape(10);
  tensor.set_fragment(1);
  tensor.set_offset(10);
  manifest.mutable_model()->mutable_transformer()->set_dim(64);
  return manifest;
}

TEST(ManifestTest, IsCompleteForToolsAndCanBeReadAgain) {
  v1::CheckpointManifest manifest = Sound();
  CompleteManifest(manifest);
  EXPECT_EQ(manifest.fragments(0).digest_hex(), "000000000000000000000000000000ab");
  EXPECT_EQ(manifest.tensors(0).file(), "b.f32");
  EXPECT_EQ(manifest.tensors(0).byte_offset(), 40);
  EXPECT_EQ(manifest.tensors(0).dtype(), "F32");
  EXPECT_EQ(manifest.parameters(), 90);
  const std::string json = *ManifestToJson(manifest);
  // Fields that are zero are written, too.
  EXPECT_THAT(json, HasSubstr("\"final\": false"));
  EXPECT_THAT(json, HasSubstr("\"dim\": 64"));
  const auto read = ManifestFromJson(json, "m");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), manifest.SerializeAsString());
}

TEST(ManifestTest, TakesFieldsOfLaterPrograms) {
  EXPECT_TRUE(ManifestFromJson(R"({"formatVersion": 1, "later": [1],
      "fragments": [{"elements": "1", "file": "a"}]})",
                               "m")
                  .ok());
}

TEST(ManifestTest, RefusesImpossibleManifests) {
  using Change = std::function<void(v1::CheckpointManifest&)>;
  const std::pair<const char*, Change> cases[] = {
      {"no fragments", [](auto& m) { m.clear_fragments(); }},
      {"negative step", [](auto& m) { m.set_step(-1); }},
      {"fragment 1 is missing", [](auto& m) { m.mutable_fragments(1)->set_fragment(2); }},
      {"impossible size", [](auto& m) { m.mutable_fragments(0)->set_elements(0); }},
      {"impossible size", [](auto& m) { m.mutable_fragments(0)->set_elements(INT64_MAX); }},
      {"invalid or repeated file name", [](auto& m) { m.mutable_fragments(0)->set_file("../a"); }},
      {"invalid or repeated file name",
       [](auto& m) { m.mutable_fragments(0)->set_file(".hidden"); }},
      {"invalid or repeated file name",
       [](auto& m) { m.mutable_fragments(0)->set_file("manifest.json"); }},
      {"invalid or repeated file name", [](auto& m) { m.mutable_fragments(0)->set_file("b.f32"); }},
      {"lies in no fragment", [](auto& m) { m.mutable_tensors(0)->set_fragment(2); }},
      {"outside", [](auto& m) { m.mutable_tensors(0)->set_offset(11); }},
      {"outside", [](auto& m) { m.mutable_tensors(0)->set_offset(-1); }},
      {"outside", [](auto& m) { m.mutable_tensors(0)->set_shape(0, INT64_MAX); }},
      {"has no name or a repeated one", [](auto& m) { *m.add_tensors() = m.tensors(0); }},
  };
  for (const auto& [words, change] : cases) {
    v1::CheckpointManifest manifest = Sound();
    change(manifest);
    const auto refused = ManifestFromJson(*ManifestToJson(manifest), "m");
    EXPECT_TRUE(absl::IsDataLoss(refused.status())) << words;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(words));
  }
  EXPECT_TRUE(absl::IsDataLoss(ManifestFromJson("{", "m").status()));
  v1::CheckpointManifest later = Sound();
  later.set_format_version(2);
  const absl::Status other = ManifestFromJson(*ManifestToJson(later), "m").status();
  EXPECT_EQ(other, absl::FailedPreconditionError("m has format 2; this program knows format 1"));
}

}  // namespace
}  // namespace longhaul
