#include "coordinator/access/audit_log.h"

#include <sys/resource.h>

#include <csignal>
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
    (*log)->Write({.who = who, .peer = "ipv6:%5B::1%5D:4711", .method = "m", .result = "OK"});
  }
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(nlohmann::json::parse(line)["who"], "token:ann");
  EXPECT_EQ(nlohmann::json::parse(line)["peer"], "ipv6:[::1]:4711");
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(nlohmann::json::parse(line)["result"], "OK");
  EXPECT_FALSE(std::getline(file, line));
}

TEST(AuditLogTest, AfterARotationByRenameTheNextLineIsInANewFile) {
  const TempDir folder;
  const std::string path = folder.Join("audit.jsonl"), rotated = folder.Join("audit.jsonl.1");
  const auto log = AuditLog::Open(path, Logger({}));
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Write({.who = "token:ann", .result = "OK"});
  std::filesystem::rename(path, rotated);
  (*log)->Write({.who = "token:bob", .result = "OK"});
  const auto who = [](const std::string& file) {
    std::ifstream lines(file);
    std::string line, all;
    while (std::getline(lines, line)) all += nlohmann::json::parse(line)["who"];
    return all;
  };
  EXPECT_EQ(who(rotated), "token:ann");
  EXPECT_EQ(who(path), "token:bob");
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
}

TEST(AuditLogTest, ALineThatADiskDidNotTakeDoesNotSpoilTheNext) {
  const TempDir folder;
  const std::string path = folder.Join("audit.jsonl");
  const auto log = AuditLog::Open(path, Logger({}));
  ASSERT_TRUE(log.ok()) << log.status();
  // A file may not grow beyond this: as on a disk that is full, a part of a line is written.
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 60, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  (*log)->Write({.who = "token:ann"});
  (*log)->Write({.who = "token:ann"});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  // Also where another process goes on.
  for (const char* who : {"token:bob", "token:eve"})
    (*AuditLog::Open(path, Logger({})))->Write({.who = who});
  (*log)->Write({.who = "token:kim"});
  std::ifstream file(path);
  std::string torn, bob, eve;
  ASSERT_TRUE(std::getline(file, torn) && std::getline(file, bob) && std::getline(file, eve));
  EXPECT_EQ(torn.size(), 60u);
  EXPECT_EQ(nlohmann::json::parse(bob)["who"], "token:bob");
  EXPECT_EQ(nlohmann::json::parse(eve)["who"], "token:eve");
}

// Who has no token could fill the disk.
TEST(AuditLogTest, CallsThatFailGetALimitedNumberOfLines) {
  const TempDir folder;
  const std::string path = folder.Join("audit.jsonl");
  const auto log = AuditLog::Open(path, Logger({}));
  ASSERT_TRUE(log.ok()) << log.status();
  constexpr int kCalls = 10 * kFailedCallsLogged;
  for (int i = 0; i < kCalls; ++i) {
    (*log)->Write({.who = "anonymous", .result = "UNAUTHENTICATED"});
    (*log)->Write({.who = "token:ann", .result = "OK"});
  }
  std::ifstream file(path);
  int failed = 0, succeeded = 0;
  int64_t left_out = 0;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    ++(json["result"] == "OK" ? succeeded : failed);
    if (json.contains("left_out")) left_out += json["left_out"].get<int64_t>();
  }
  EXPECT_EQ(succeeded, kCalls);
  EXPECT_GE(failed, kFailedCallsLogged);
  EXPECT_LT(failed, kCalls);
  // Those after the last line are told by the next.
  EXPECT_LE(failed + left_out, kCalls);
}

TEST(AuditLogTest, AFileThatCannotBeMadeIsNamed) {
  const absl::Status status = AuditLog::Open("/nowhere/audit.jsonl", Logger({})).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("/nowhere/audit.jsonl"));
}

}  // namespace
}  // namespace longhaul::coordinator
