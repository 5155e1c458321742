#include "common/checkpoint/reader.h"

#include <limits>
#include <numeric>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"
#include "common/wire/proto_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

v1::CheckpointTensor Tensor(const std::string& name, std::vector<int64_t> shape, int fragment,
                            int64_t offset) {
  v1::CheckpointTensor tensor;
  tensor.set_name(name);
  tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  tensor.set_fragment(fragment);
  tensor.set_offset(offset);
  return tensor;
}

// One fragment of 200 elements 0, 1, 2, ..., with two tensors.
class CheckpointReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fs_.CreateDir("c").ok());
    std::vector<float> values(200);
    std::iota(values.begin(), values.end(), 0.0f);
    Write(values);
  }
  void Write(const std::vector<float>& values) {
    ASSERT_TRUE(WriteFileAtomically(fs_, "c/f.f32", BytesOf(values)).ok());
    v1::CheckpointManifest manifest;
    manifest.set_format_version(1);
    v1::CheckpointFragment& fragment = *manifest.add_fragments();
    fragment.set_elements(200);
    fragment.set_file("f.f32");
    *fragment.mutable_digest() = ToProto(DigestOf(BytesOf(values)));
    *manifest.add_tensors() = Tensor("a", {2, 3}, 0, 0);
    *manifest.add_tensors() = Tensor("b", {4}, 0, 128);
    ASSERT_TRUE(WriteFileAtomically(fs_, "c/manifest.json", *ManifestToJson(manifest)).ok());
  }
  MemoryFileSystem fs_;
};

TEST_F(CheckpointReaderTest, PutsTensorsWhereTheyAreWanted) {
  auto reader = CheckpointReader::Open(&fs_, "c");
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto values = reader->Read(10, {Tensor("b", {4}, 0, 0), Tensor("a", {2, 3}, 0, 4)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(std::vector<float>(values->begin(), values->end()),
              testing::ElementsAre(128, 129, 130, 131, 0, 1, 2, 3, 4, 5));
}

TEST_F(CheckpointReaderTest, RefusesOtherTensors) {
  auto reader = *CheckpointReader::Open(&fs_, "c");
  EXPECT_TRUE(absl::IsNotFound(reader.Read(10, {Tensor("x", {4}, 0, 0)}).status()));
  EXPECT_TRUE(absl::IsNotFound(reader.Read(10, {Tensor("b", {5}, 0, 0)}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(reader.Read(3, {Tensor("b", {4}, 0, 0)}).status()));
}

TEST_F(CheckpointReaderTest, ReturnsNothingFromADamagedFile) {
  ASSERT_TRUE((*fs_.Open("c/f.f32"))->WriteAt(700, "x").ok());
  auto reader = *CheckpointReader::Open(&fs_, "c");
  const absl::Status damaged = reader.Read(10, {Tensor("b", {4}, 0, 0)}).status();
  EXPECT_TRUE(absl::IsDataLoss(damaged));
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("c/f.f32"));
}

TEST_F(CheckpointReaderTest, RefusesValuesThatAreNotFinite) {
  std::vector<float> values(200);
  values[130] = std::numeric_limits<float>::quiet_NaN();
  Write(values);
  auto reader = *CheckpointReader::Open(&fs_, "c");
  EXPECT_TRUE(reader.Read(10, {Tensor("a", {2, 3}, 0, 0)}).ok());
  const absl::Status status = reader.Read(10, {Tensor("b", {4}, 0, 0)}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(status.message(), "c/f.f32: b has values that are not finite");
}

TEST_F(CheckpointReaderTest, TellsByTheirSizesThatFilesAreNotWhole) {
  const v1::CheckpointManifest manifest = *ReadManifest(fs_, "c");
  EXPECT_TRUE(CheckFileSizes(fs_, "c", manifest).ok());
  ASSERT_TRUE((*fs_.Open("c/f.f32"))->Truncate(796).ok());
  const absl::Status cut = CheckFileSizes(fs_, "c", manifest);
  EXPECT_TRUE(absl::IsDataLoss(cut));
  EXPECT_THAT(std::string(cut.message()), HasSubstr("c/f.f32"));
  ASSERT_TRUE(fs_.Remove("c/f.f32").ok());
  EXPECT_TRUE(absl::IsNotFound(CheckFileSizes(fs_, "c", manifest)));
}

TEST_F(CheckpointReaderTest, NamesTheFirstDifferences) {
  const v1::CheckpointManifest manifest = *ReadManifest(fs_, "c");
  EXPECT_EQ(TensorDifferences(manifest, {Tensor("b", {4}, 1, 9), Tensor("a", {2, 3}, 3, 0)}), "");
  EXPECT_EQ(TensorDifferences(manifest, {Tensor("a", {3, 2}, 0, 0), Tensor("x", {1}, 0, 0),
                                         Tensor("y", {1}, 0, 0)}),
            "a is [2, 3] instead of [3, 2]; it has no x; it has no y; and 1 more");
}

}  // namespace
}  // namespace longhaul
