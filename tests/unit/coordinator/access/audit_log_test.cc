#include "coordinator/access/audit_log.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/temp_dir.h"

namespace longhaul::coordinator {
namespace {

TEST(AuditLogTest, WritesALineAndKeepsWhatIsThere) {
  const TempDir folder;
  const std::string path = folder.Join("audit.jsonl");
  for (const char* who : {"token:ann", "token:\xff\"\n"}) {
    const auto log = AuditLog::Open(path, Logger({}));
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->Write({.who = who, .method = "m", .result = "OK"});
  }
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(nlohmann::json::parse(line)["who"], "token:ann");
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(nlohmann::json::parse(line)["result"], "OK");
  EXPECT_FALSE(std::getline(file, line));
}

TEST(AuditLogTest, AFileThatCannotBeMadeIsNamed) {
  const absl::Status status = AuditLog::Open("/nowhere/audit.jsonl", Logger({})).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("/nowhere/audit.jsonl"));
}

}  // namespace
}  // namespace longhaul::coordinator
