#include "common/safetensors/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& json, int64_t bytes) {
  const auto header = ParseSafetensorsHeader(json, bytes);
  EXPECT_TRUE(absl::IsInvalidArgument(header.status())) << json;
  return std::string(header.status().message());
}

TEST(SafetensorsHeaderTest, TensorsComeInTheOrderOfTheirBytes) {
  const auto header = ParseSafetensorsHeader(
      R"({"b":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},"__metadata__":{"format":"pt"},)"
      R"("none":{"shape":[0,7],"dtype":"F32","data_offsets":[4,4]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
      16);
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->tensors.size(), 3);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].elements, 1);
  EXPECT_EQ(header->tensors[1].name, "none");
  EXPECT_EQ(header->tensors[2].offset, 4);
  EXPECT_EQ(header->tensors[2].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header->metadata.at("format"), "pt");
}

TEST(SafetensorsHeaderTest, ReadsWhatItWrote) {
  SafetensorsHeader header{
      .tensors = {{.name = "x \"y\"", .type = ElementType::kBf16, .shape = {3}, .elements = 3},
                  {.name = "z", .shape = {2, 2}, .elements = 4}},
      .metadata = {{"format", "pt"}}};
  const std::string json = WriteSafetensorsHeader(header);
  EXPECT_EQ(json.size() % 8, 0);
  const auto read = ParseSafetensorsHeader(json, 22);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tensors[0].name, "x \"y\"");
  EXPECT_EQ(read->tensors[1].offset, 6);
  EXPECT_EQ(read->metadata, header.metadata);
}

TEST(SafetensorsHeaderTest, BytesThatDoNotFitAreNamed) {
  const auto tensor = [](const std::string& name, int from, int to) {
    return "\"" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(to - from) +
           R"(],"data_offsets":[)" + std::to_string(from) + "," + std::to_string(to) + "]}";
  };
  EXPECT_THAT(ErrorOf("{" + tensor("a", 0, 4) + "," + tensor("b", 2, 6) + "}", 6),
              HasSubstr("'b' begins at byte 2, inside the tensor before it"));
  EXPECT_THAT(ErrorOf("{" + tensor("a", 0, 4) + "," + tensor("b", 5, 6) + "}", 6),
              HasSubstr("'b' begins at byte 5, after a gap from byte 4"));
  EXPECT_THAT(ErrorOf("{" + tensor("a", 0, 4) + "}", 3), HasSubstr("cut off"));
  EXPECT_THAT(ErrorOf("{" + tensor("a", 0, 4) + "}", 5), HasSubstr("more than its header says"));
  EXPECT_THAT(ErrorOf("{" + tensor("a", 0, 2) + "," + tensor("a", 2, 4) + "}", 4),
              HasSubstr("'a' occurs twice"));
}

TEST(SafetensorsHeaderTest, MalformedTensorsAreNamed) {
  const auto one = [](const std::string& fields) { return "{\"a\":{" + fields + "}}"; };
  EXPECT_THAT(ErrorOf(one(R"("dtype":"F12","shape":[1],"data_offsets":[0,4])"), 4),
              HasSubstr("'a' has an unknown dtype 'F12'"));
  EXPECT_THAT(ErrorOf(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4),
              HasSubstr("its shape needs 8 bytes"));
  EXPECT_THAT(ErrorOf(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4),
              HasSubstr("data_offsets 4 to 0"));
  EXPECT_THAT(ErrorOf(one(R"("dtype":"F32","shape":[1])"), 4), HasSubstr("needs dtype, shape"));
  EXPECT_THAT(ErrorOf(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4),
              HasSubstr("a negative number"));
  EXPECT_THAT(ErrorOf(one(R"("dtype":"F32","shape":[9e99],"data_offsets":[0,4])"), 4),
              HasSubstr("a fraction"));
  EXPECT_THAT(
      ErrorOf(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])"), 4),
      HasSubstr("more elements than fit"));
  EXPECT_THAT(ErrorOf(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1)"), 4),
              HasSubstr("unknown field 'x'"));
  EXPECT_THAT(ErrorOf(one(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"), 4),
              HasSubstr("a list"));
}

TEST(SafetensorsHeaderTest, RefusesOtherBytes) {
  EXPECT_THAT(ErrorOf("", 0), HasSubstr("does not begin with"));
  EXPECT_THAT(ErrorOf("[]", 0), HasSubstr("does not begin with"));
  EXPECT_THAT(ErrorOf("{\"a\":", 0), HasSubstr("is not JSON at byte"));
  EXPECT_THAT(ErrorOf("{\"a\":" + std::string(100000, '['), 0), HasSubstr("a list"));
  EXPECT_THAT(ErrorOf("{\"__metadata__\":{\"a\":1}}", 0), HasSubstr("a number"));
  // Before others are read, so that they take no memory.
  EXPECT_THAT(ErrorOf("{\"a\":{},\"b\":[", 0), HasSubstr("'a' needs dtype, shape"));
  EXPECT_THAT(ErrorOf("{" + std::string(kSafetensorsHeaderMax, ' ') + "}", 0),
              HasSubstr("too large"));
}

}  // namespace
}  // namespace longhaul
