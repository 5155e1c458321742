#include "worker/state/state_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_replace.h"
#include "common/io/posix_filesystem.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

const StateTag kTag{.owner = {.job = "j", .pool = "p", .spec = "s", .layout = "l"},
                    .life = ~uint64_t{0},
                    .step = 1234,
                    .rank = 3,
                    .ranks = 8,
                    .phase = {{"look_norm", 0.1}, {"updates", 77}}};
const std::vector<InnerStatePart> kParts = {
    {{InnerStateKind::kMoment, 0, 128, 3}, {1, -2.5f, 3e-40f}},
    {{InnerStateKind::kServerError, 2, 0, 0}, {}},
    {{InnerStateKind::kUplinkError, 2, 5, 1}, {4}}};

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class StateFileTest : public testing::Test {
 protected:
  StateFileTest() { EXPECT_TRUE(WriteStateFile(fs_.get(), path_, kTag, kParts).ok()); }
  absl::Status OpenBytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    const auto file = StateFile::Open(path_);
    if (!file.ok()) return file.status();
    for (size_t i = 0; i < file->slots().size(); ++i) {
      if (const absl::Status status = file->Verify(i); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  TempDir dir_;
  const std::unique_ptr<FileSystem> fs_ = MakePosixFileSystem();
  const std::string path_ = dir_.Join("file.safetensors");
};

TEST_F(StateFileTest, GivesBackWhatWasWritten) {
  const auto file = StateFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tag(), kTag);
  ASSERT_EQ(file->slots().size(), kParts.size());
  for (size_t i = 0; i < kParts.size(); ++i) {
    EXPECT_EQ(file->slots()[i], kParts[i].slot);
    EXPECT_TRUE(file->Verify(i).ok());
    std::vector<float> values(kParts[i].slot.count);
    EXPECT_TRUE(file->Read(i, 0, absl::MakeSpan(values)).ok());
    EXPECT_EQ(values, kParts[i].values);
  }
  std::vector<float> one(1);
  EXPECT_TRUE(file->Read(0, 1, absl::MakeSpan(one)).ok());
  EXPECT_EQ(one[0], -2.5f);
}

TEST_F(StateFileTest, EveryChangedByteAndEveryLengthIsNoticed) {
  const std::string bytes = Bytes(path_);
  ASSERT_TRUE(OpenBytes(bytes).ok());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const char change : {1, 32, -128}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ change);
      const absl::Status status = OpenBytes(changed);
      // Two spaces of the padding are as good as one.
      if (status.ok()) {
        EXPECT_EQ(bytes[i], ' ') << i;
      } else {
        EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsFailedPrecondition(status)) << status;
      }
    }
    EXPECT_TRUE(absl::IsDataLoss(OpenBytes(bytes.substr(0, i)))) << i;
  }
  EXPECT_TRUE(absl::IsDataLoss(OpenBytes(bytes + "1234")));
}

// As a disk that fails after the header was read.
TEST_F(StateFileTest, WhatCannotBeReadAnyMoreIsAnError) {
  const std::vector<InnerStatePart> large = {
      {{InnerStateKind::kMoment, 0, 0, 100'000}, std::vector<float>(100'000, 1.5f)}};
  ASSERT_TRUE(WriteStateFile(fs_.get(), path_, kTag, large).ok());
  const auto file = StateFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::resize_file(path_, 5000);
  EXPECT_TRUE(absl::IsDataLoss(file->Verify(0)));
  std::vector<float> values(3);
  EXPECT_TRUE(absl::IsDataLoss(file->Read(0, 90'000, absl::MakeSpan(values))));
}

TEST_F(StateFileTest, ALaterVersionIsToldFromDamage) {
  const absl::Status status =
      OpenBytes(absl::StrReplaceAll(Bytes(path_), {{R"("version":"1")", R"("version":"2")"}}));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 2"));
}

TEST_F(StateFileTest, OtherFilesOfTensorsAreRefused) {
  EXPECT_TRUE(absl::IsDataLoss(OpenBytes("")));
  const std::string json = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const uint64_t size = json.size();
  EXPECT_TRUE(absl::IsDataLoss(
      OpenBytes(std::string(reinterpret_cast<const char*>(&size), 8) + json + "1234")));
  std::filesystem::remove(path_);
  EXPECT_TRUE(absl::IsNotFound(StateFile::Open(path_).status()));
}

}  // namespace
}  // namespace longhaul
