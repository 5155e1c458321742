#include "common/track/record.h"

#include "gtest/gtest.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul {
namespace {

// From RFC 3720, B.4: 32 bytes of zeros, and the numbers from 0. They are unmasked here by hand.
TEST(RecordTest, ChecksumsAreThoseOfTheStandard) {
  const auto unmasked = [](absl::string_view bytes) {
    const uint32_t rotated = MaskedCrc32c(bytes) - 0xa282ead8;
    return (rotated >> 17) | (rotated << 15);
  };
  EXPECT_EQ(unmasked(std::string(32, '\0')), 0x8a9136aa);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending.push_back(c);
  EXPECT_EQ(unmasked(ascending), 0x46dd794e);
  EXPECT_EQ(unmasked("123456789"), 0xe3069283);
}

class RecordFileTest : public testing::Test {
 protected:
  std::vector<std::string> Read(int64_t* end) {
    std::vector<std::string> records;
    const auto whole =
        ReadRecords(*file_, [&](absl::string_view record) { records.emplace_back(record); });
    EXPECT_TRUE(whole.ok());
    *end = whole.value_or(-1);
    return records;
  }

  MemoryFileSystem fs_;
  std::unique_ptr<File> file_ = *fs_.Create("file");
};

TEST_F(RecordFileTest, ReadsRecordsOfEverySize) {
  std::vector<std::string> records = {"", "one", std::string(kRecordBytesMax, 'x')};
  for (int i = 0; i < 3000; ++i) records.push_back(std::string(i, 'a'));
  std::string bytes;
  for (const std::string& record : records) AppendRecord(record, &bytes);
  ASSERT_TRUE(file_->WriteAt(0, bytes).ok());
  int64_t end = 0;
  EXPECT_EQ(Read(&end), records);
  EXPECT_EQ(end, static_cast<int64_t>(bytes.size()));
}

TEST_F(RecordFileTest, EndsWhereARecordIsTornOrDamaged) {
  std::string bytes;
  AppendRecord("first", &bytes);
  const auto whole = static_cast<int64_t>(bytes.size());
  AppendRecord("second", &bytes);
  int64_t end = 0;
  for (size_t size = whole; size < bytes.size(); ++size) {
    ASSERT_TRUE(file_->Truncate(0).ok());
    ASSERT_TRUE(file_->WriteAt(0, bytes.substr(0, size)).ok());
    EXPECT_EQ(Read(&end).size(), 1) << size;
    EXPECT_EQ(end, whole);
  }
  for (size_t at = whole; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] ^= 0x10;
    ASSERT_TRUE(file_->WriteAt(0, damaged).ok());
    EXPECT_EQ(Read(&end).size(), 1) << at;
    EXPECT_EQ(end, whole);
  }
}

}  // namespace
}  // namespace longhaul
