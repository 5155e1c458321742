#include "common/logging/logging.h"

#include <unistd.h>

#include <sstream>
#include <thread>

#include "common/logging/standard_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace longhaul {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LoggingTest, JsonLineHasTimeLevelMessageAndFields) {
  std::ostringstream out;
  const Logger logger({.program = "worker", .format = LogFormat::kJson, .stream = &out});
  logger.With({.job = "a", .pool = "east"}).With({.rank = 0, .round = 7}).Warning("late \"b\"\nc");
  const auto line = nlohmann::json::parse(out.str());
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["program"], "worker");
  EXPECT_EQ(line["message"], "late \"b\"\nc");
  EXPECT_EQ(line["job"], "a");
  EXPECT_EQ(line["pool"], "east");
  EXPECT_EQ(line["rank"], 0);
  EXPECT_EQ(line["round"], 7);
  EXPECT_THAT(line["time"].get<std::string>(), EndsWith("Z"));
  EXPECT_THAT(out.str(), EndsWith("}\n"));
}

TEST(LoggingTest, JsonLeavesOutEmptyFieldsAndReplacesWhatIsNotUtf8) {
  std::ostringstream out;
  Logger({.format = LogFormat::kJson, .stream = &out}).Info("a\xff");
  const auto line = nlohmann::json::parse(out.str());
  EXPECT_EQ(line["message"], "a\xef\xbf\xbd");
  EXPECT_FALSE(line.contains("job"));
  EXPECT_FALSE(line.contains("rank"));
}

TEST(LoggingTest, AStreamThatIsNoTerminalGetsJson) {
  std::ostringstream out;
  Logger({.stream = &out}).Info("a");
  EXPECT_TRUE(nlohmann::json::accept(out.str()));
}

TEST(LoggingTest, TextLineEndsWithItsFieldsAndStaysOneLine) {
  std::ostringstream out;
  const Logger logger({.format = LogFormat::kText, .stream = &out});
  logger.With({.job = "a\nb", .round = 3}).Error("lost\npool");
  EXPECT_THAT(out.str(), HasSubstr("error"));
  EXPECT_THAT(out.str(), EndsWith(" lost\\npool job=a\\nb round=3\n"));
}

TEST(LoggingTest, NothingInATextLineDrivesTheTerminal) {
  std::ostringstream out;
  const Logger logger({.format = LogFormat::kText, .stream = &out});
  // U+009B is ESC [ in one character, U+202E turns round what follows, ff is no UTF-8.
  logger.With({.pool = "a\u2028b"}).Warning("x\u009b2J\u202ey\xff \\ \"j\u00f6b\"");
  EXPECT_THAT(out.str(), EndsWith(" x\\xc2\\x9b2J\\xe2\\x80\\xaey\\xff \\ \"j\u00f6b\" "
                                  "pool=a\\xe2\\x80\\xa8b\n"));
}

TEST(LoggingTest, StandardErrorGetsTheSameLines) {
  ::testing::internal::CaptureStderr();
  Logger({.program = "worker", .format = LogFormat::kText}).Warning("late");
  Logger({.program = "worker", .format = LogFormat::kJson})
      .With({.job = "a", .job_id = "j-1"})
      .Info("in time");
  FlushStandardError();
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr(" warning late\n"));
  const auto line = nlohmann::json::parse(text.substr(text.find('\n') + 1));
  EXPECT_EQ(line["message"], "in time");
  EXPECT_EQ(line["job"], "a");
  EXPECT_EQ(line["job_id"], "j-1");
}

// A pipe that nobody reads. Nothing waits for it, not even when it and the queue are full.
TEST(LoggingTest, StandardErrorThatNobodyReadsHoldsUpNobody) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const int before = dup(STDERR_FILENO);
  FlushStandardError();
  ASSERT_GE(dup2(pipe_ends[1], STDERR_FILENO), 0);
  std::string newest;
  const Logger logger(
      {.program = "worker",
       .format = LogFormat::kJson,
       .on_line = [&newest](absl::string_view line) { newest.assign(line.data(), line.size()); }});
  const std::string kilobyte(1000, 'x');
  int lines = 0;
  while (StandardErrorLinesDropped() == 0 && lines < 100'000) {
    logger.Info(kilobyte);
    ++lines;
  }
  EXPECT_GT(StandardErrorLinesDropped(), 0);
  // Who keeps lines elsewhere has all of them.
  logger.Error("the last one");
  EXPECT_EQ(nlohmann::json::parse(newest)["message"], "the last one");
  // Somebody reads again: no line is torn, and the gap is told in the same form.
  std::string text;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t n; (n = read(pipe_ends[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, n);
  });
  FlushStandardError(absl::Seconds(30));
  ASSERT_GE(dup2(before, STDERR_FILENO), 0);
  close(before);
  close(pipe_ends[1]);
  reader.join();
  close(pipe_ends[0]);
  int told = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["program"], "worker");
    told += json["message"].get<std::string>() ==
            "1 log line was dropped here because nobody read standard error";
  }
  EXPECT_EQ(told, 1);
  EXPECT_THAT(text, HasSubstr("the last one"));
}

TEST(LoggingTest, DropsLinesBelowTheLevel) {
  std::ostringstream out;
  const Logger logger({.level = LogLevel::kWarning, .stream = &out});
  logger.Debug("hidden");
  logger.Info("hidden");
  logger.Warning("shown");
  EXPECT_THAT(out.str(), Not(HasSubstr("hidden")));
  EXPECT_THAT(out.str(), HasSubstr("shown"));
  EXPECT_FALSE(logger.Enabled(LogLevel::kInfo));
}

TEST(LoggingTest, LinesOfSeveralThreadsStayWhole) {
  std::ostringstream out;
  {
    const Logger logger({.format = LogFormat::kJson, .stream = &out});
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([mine = logger.With({.rank = i})] {
        for (int j = 0; j < 100; ++j) mine.Info("line");
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::istringstream lines(out.str());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
  EXPECT_EQ(count, 400);
}

TEST(LoggingTest, ParsesLevelAndFormat) {
  EXPECT_EQ(ParseLogLevel("debug").value(), LogLevel::kDebug);
  EXPECT_EQ(ParseLogLevel("loud").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseLogFormat("json").value(), LogFormat::kJson);
  EXPECT_EQ(ParseLogFormat("xml").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace longhaul
