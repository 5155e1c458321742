#include "common/safetensors/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "common/safetensors/safetensors_file.h"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

const SafetensorsHeader kHeader{
    .tensors = {{.name = "a", .type = ElementType::kU8, .shape = {3}, .elements = 3},
                {.name = "b", .type = ElementType::kBf16, .shape = {1, 2}, .elements = 2}}};

absl::Status WriteIt(FileSystem& fs, const std::string& path) {
  auto writer = SafetensorsWriter::Create(&fs, path, kHeader);
  if (!writer.ok()) return writer.status();
  for (const char* piece : {"xy", "z1", "2", "", "34"}) {
    const absl::Status appended = writer->Append(piece);
    if (!appended.ok()) return appended;
  }
  return writer->Finish();
}

TEST(SafetensorsWriterTest, ReadsWhatItWrote) {
  const TempDir folder;
  const std::string path = folder.path() + "/m.safetensors";
  const auto fs = MakePosixFileSystem();
  ASSERT_TRUE(WriteIt(*fs, path).ok());
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<StoredTensor>& tensors = file->header().tensors;
  ASSERT_THAT(tensors,
              ElementsAre(Field(&StoredTensor::name, "a"), Field(&StoredTensor::name, "b")));
  const auto bytes_of = [&](const StoredTensor& tensor) {
    std::vector<uint8_t> bytes(tensor.bytes());
    EXPECT_TRUE(file->ReadBytes(tensor, 0, absl::MakeSpan(bytes)).ok());
    return bytes;
  };
  EXPECT_THAT(bytes_of(tensors[0]), ElementsAre('x', 'y', 'z'));
  EXPECT_THAT(bytes_of(tensors[1]), ElementsAre('1', '2', '3', '4'));
  EXPECT_THAT(*fs->List(folder.path()), ElementsAre("m.safetensors"));
}

TEST(SafetensorsWriterTest, AFailedWriteLeavesNothing) {
  for (int64_t operation = 0;; ++operation) {
    MemoryFileSystem memory;
    ASSERT_TRUE(memory.CreateDir("/f").ok());
    FailingFileSystem fs(&memory);
    fs.FailOnce(operation, absl::ResourceExhaustedError("full"));
    const absl::Status status = WriteIt(fs, "/f/m");
    // Then every operation has failed once.
    if (status.ok()) break;
    EXPECT_TRUE(absl::IsResourceExhausted(status));
    const auto names = *memory.List("/f");
    // If the file has its name, only the durability of the name can be uncertain.
    if (!names.empty()) {
      EXPECT_THAT(names, ElementsAre("m")) << operation;
    }
    ASSERT_LT(operation, 100);
  }
}

TEST(SafetensorsWriterTest, AsManyBytesAsTheHeaderSays) {
  MemoryFileSystem fs;
  ASSERT_TRUE(fs.CreateDir("/f").ok());
  auto writer = SafetensorsWriter::Create(&fs, "/f/m", kHeader);
  ASSERT_TRUE(writer->Append("123456").ok());
  EXPECT_THAT(writer->Finish().message(), HasSubstr("fewer"));
  EXPECT_THAT(writer->Append("78").message(), HasSubstr("more"));
  ASSERT_TRUE(writer->Append("7").ok());
  EXPECT_TRUE(writer->Finish().ok());
}

TEST(SafetensorsFileTest, RefusesOtherFiles) {
  const TempDir folder;
  const auto error = [&](const std::string& bytes) {
    const std::string path = folder.path() + "/file";
    std::ofstream(path, std::ios::binary) << bytes;
    const auto file = SafetensorsFile::Open(path);
    EXPECT_TRUE(absl::IsInvalidArgument(file.status()));
    EXPECT_THAT(file.status().message(), HasSubstr(path));
    return std::string(file.status().message());
  };
  EXPECT_THAT(error(""), HasSubstr("0 bytes are not"));
  EXPECT_THAT(error("1234567"), HasSubstr("7 bytes are not"));
  EXPECT_THAT(error(std::string(16, '\xff')), HasSubstr("does not fit the file"));
  EXPECT_THAT(error(std::string("\x10\0\0\0\0\0\0\0{}", 10)), HasSubstr("does not fit the file"));
  EXPECT_THAT(error(std::string("\x02\0\0\0\0\0\0\0{}x", 11)), HasSubstr("1 follow"));
  EXPECT_TRUE(absl::IsNotFound(SafetensorsFile::Open(folder.path() + "/none").status()));
}

}  // namespace
}  // namespace longhaul
