#include "coordinator/access/audit_log.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
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

std::vector<nlohmann::json> LinesOf(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(AuditLogTest, ACallHasALineBeforeItIsHandledWithTheSameNumber) {
  const TempDir folder;
  const std::string path = folder.Join("audit.jsonl");
  const auto log = AuditLog::Open(path, Logger({}));
  ASSERT_TRUE(log.ok()) << log.status();
  AuditEntry entry{.who = "token:ann", .method = "m", .job = "tiny", .call = (*log)->NextCall()};
  (*log)->WriteBegun(entry);
  // If the program were killed now, the file would have it.
  std::vector<nlohmann::json> lines = LinesOf(path);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["result"], "BEGUN");
  EXPECT_EQ(lines[0]["job"], "tiny");
  entry.result = "OK";
  (*log)->Write(entry);
  lines = LinesOf(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1]["result"], "OK");
  EXPECT_EQ(lines[1]["call"], lines[0]["call"]);
  EXPECT_NE((*log)->NextCall(), entry.call);
}

TEST(AuditLogTest, AFileThatWasRenamedOrRemovedIsMadeAgain) {
  const TempDir folder;
  const std::string path = folder.Join("audit.jsonl"), old = folder.Join("audit.jsonl.1");
  const auto log = AuditLog::Open(path, Logger({}));
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Write({.who = "token:ann", .result = "OK"});
  std::filesystem::rename(path, old);
  (*log)->Write({.who = "token:bob", .result = "OK"});
  ASSERT_EQ(LinesOf(old).size(), 1u);
  ASSERT_EQ(LinesOf(path).size(), 1u);
  EXPECT_EQ(LinesOf(path)[0]["who"], "token:bob");
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  std::filesystem::remove(path);
  (*log)->Write({.who = "token:eve", .result = "OK"});
  ASSERT_EQ(LinesOf(path).size(), 1u);
  EXPECT_EQ(LinesOf(path)[0]["who"], "token:eve");
}

TEST(AuditLogTest, LinesThatAreMissingAreCountedAndToldAndTheFileIsTriedAgain) {
  const TempDir folder;
  const std::string path = folder.Join("audit.jsonl");
  std::ostringstream text;
  const auto log = AuditLog::Open(path, Logger({.format = LogFormat::kText, .stream = &text}));
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_TRUE((*log)->Health().ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  for (int i = 0; i < 3; ++i) (*log)->Write({.who = "token:ann", .result = "OK"});
  EXPECT_EQ((*log)->dropped(), 3);
  EXPECT_THAT(std::string((*log)->Health().message()), ::testing::HasSubstr(path));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  // No further call is needed.
  (*log)->Retry();
  for (int tries = 0; !(*log)->Health().ok() && tries < 3000; ++tries)
    absl::SleepFor(absl::Milliseconds(10));
  EXPECT_TRUE((*log)->Health().ok());
  ASSERT_EQ(LinesOf(path).size(), 1u);
  EXPECT_EQ(LinesOf(path)[0]["dropped"], 3);
}

// A pipe that nobody reads stands for a disk that hangs.
TEST(AuditLogTest, ADiskThatHangsHoldsUpNoCall) {
  const TempDir folder;
  const std::string path = folder.Join("audit.jsonl");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto log = AuditLog::Open(path, Logger({}));
  ASSERT_TRUE(log.ok()) << log.status();
  // Far more than fits: each of them would wait.
  for (int i = 0; i < 100'000; ++i) {
    (*log)->Write({.who = "token:ann", .result = "OK"});
    if ((*log)->dropped() > 0) break;
  }
  EXPECT_GT((*log)->dropped(), 0);
  EXPECT_GT((*log)->stalled_for(), absl::ZeroDuration());
  // Its thread ends.
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  char buffer[65536];
  while ((*log)->stalled_for() > absl::ZeroDuration()) (void)!read(reader, buffer, sizeof(buffer));
  close(reader);
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

// An agent may join again and again.
TEST(AuditLogTest, APoolsCallsGetALimitedNumberOfLines) {
  const TempDir folder;
  const std::string path = folder.Join("audit.jsonl");
  const auto log = AuditLog::Open(path, Logger({}));
  ASSERT_TRUE(log.ok()) << log.status();
  const AuditEntry join{.method = "longhaul.v1.PoolService/Join", .pool = "site-a", .result = "OK"};
  for (int i = 0; i < 10 * kPoolCallsLogged; ++i) (*log)->Write(join);
  AuditEntry other = join;
  other.pool = "site-b";
  (*log)->Write(other);
  std::ifstream file(path);
  int lines = 0;
  std::string line, last;
  for (; std::getline(file, line); last = line) ++lines;
  EXPECT_GE(lines, kPoolCallsLogged + 1);
  EXPECT_LT(lines, 2 * kPoolCallsLogged);
  const auto json = nlohmann::json::parse(last);
  EXPECT_EQ(json["pool"], "site-b") << "another pool's are not held back";
  EXPECT_EQ(json["left_out"], 10 * kPoolCallsLogged + 1 - lines);
}

TEST(AuditLogTest, AFileThatCannotBeMadeIsNamed) {
  const absl::Status status = AuditLog::Open("/nowhere/audit.jsonl", Logger({})).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("/nowhere/audit.jsonl"));
}

}  // namespace
}  // namespace longhaul::coordinator
