#include "worker/agent/incarnation_record.h"

#include <fstream>
#include <optional>

#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

constexpr char kFirst[] = "0123456789abcdef", kSecond[] = "fedcba9876543210";

class IncarnationRecordTest : public testing::Test {
 protected:
  IncarnationRecord Open(const std::string& pool = "a", const std::string& coordinator = "c:1",
                         const std::string& boot = "boot") {
    return IncarnationRecord::Open(folder(), pool, coordinator, boot).value();
  }
  std::string folder() const { return scratch_.path() + "/work_dir/agents"; }

 private:
  const TempDir scratch_;
};

TEST_F(IncarnationRecordTest, TheNextAgentKnowsTheOneThatEnded) {
  {
    IncarnationRecord record = Open();
    EXPECT_EQ(record.before(), "");
    ASSERT_TRUE(record.Write(kFirst).ok());
    ASSERT_TRUE(record.Write(kSecond).ok());
  }
  EXPECT_EQ(Open().before(), kSecond);
}

TEST_F(IncarnationRecordTest, AnAgentThatRunsIsNotTakenForOneThatEnded) {
  std::optional<IncarnationRecord> first = Open();
  ASSERT_TRUE(first->Write(kFirst).ok());
  IncarnationRecord second = Open();
  EXPECT_EQ(second.before(), "");
  ASSERT_TRUE(second.Write(kSecond).ok());
  first.reset();
  EXPECT_EQ(Open().before(), kFirst);
}

TEST_F(IncarnationRecordTest, APoolOfAnotherNameCoordinatorOrSystemHasAnother) {
  ASSERT_TRUE(Open().Write(kFirst).ok());
  EXPECT_EQ(Open("b").before(), "");
  EXPECT_EQ(Open("a", "c:2").before(), "");
  EXPECT_EQ(Open("a", "c:1", "later").before(), "");
  EXPECT_EQ(Open().before(), kFirst);
}

TEST_F(IncarnationRecordTest, ARecordThatIsDamagedSaysNothing) {
  ASSERT_TRUE(Open().Write("../../etc").ok());
  EXPECT_EQ(Open().before(), "");
  ASSERT_TRUE(Open().Write(std::string(100'000, 'a')).ok());
  EXPECT_EQ(Open().before(), "");
}

TEST_F(IncarnationRecordTest, AFolderThatCannotBeMade) {
  std::ofstream(folder().substr(0, folder().find("/work")) + "/file") << "no folder";
  const auto record = IncarnationRecord::Open(
      folder().substr(0, folder().find("/work")) + "/file/agents", "a", "c:1", "boot");
  EXPECT_FALSE(record.ok());
}

TEST(BootIdTest, IsOneWord) {
  const std::string id = BootId().value();
  EXPECT_EQ(id.find(' '), std::string::npos);
  EXPECT_EQ(id, BootId().value());
}

}  // namespace
}  // namespace longhaul
