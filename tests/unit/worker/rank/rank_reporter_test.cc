#include "worker/rank/rank_reporter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include <string>
#include <thread>

#include "common/base/utf8.h"
#include "worker/agent/rank_report.h"
#include "worker/rank/fault.h"

namespace {
std::atomic<int> seconds_set_back = 0;
}  // namespace

// Before libc's: a wall clock that was set.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec -= seconds_set_back;
  return result;
}

namespace longhaul {
namespace {

class RankReporterTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(ends_), 0); }
  void TearDown() override {
    if (reader_ != nullptr) fclose(reader_);
  }
  // The next report that is no status.
  v1::HeartbeatRequest Next() {
    if (reader_ == nullptr) reader_ = fdopen(ends_[0], "r");
    for (;;) {
      std::string line(2 << 20, '\0');
      if (fgets(line.data(), static_cast<int>(line.size()), reader_) == nullptr) return {};
      line.resize(std::strlen(line.data()));
      const auto report = ParseRankReport(line);
      EXPECT_TRUE(report.ok()) << line.size() << " bytes: " << line.substr(0, 200);
      if (!report.ok()) return {};
      if (const auto* message = std::get_if<v1::HeartbeatRequest>(&*report)) return *message;
    }
  }

  int ends_[2] = {-1, -1};
  FILE* reader_ = nullptr;
  RankMonitor monitor_{{}};
};

TEST_F(RankReporterTest, WritesReportsAndStatuses) {
  {
    RankReporter reporter(ends_[1], 10, &monitor_);
    reporter.Progress({.inner_step = 3, .gradient_norm = 1.5, .learning_rate = 0.25});
    reporter.Progress({.inner_step = 4});  // Too soon to be written.
    reporter.Flush();
    reporter.Flush();
    reporter.Evaluation({.step = 4, .loss = 2.5, .of_pool = true, .metrics = {{"loss", 2.5}}});
    reporter.Progress({.inner_step = 10, .merged = true});
  }
  close(ends_[1]);
  const v1::PoolProgress first = Next().progress();
  EXPECT_EQ(first.inner_step(), 3);
  EXPECT_EQ(first.gradient_norm(), 1.5);
  EXPECT_EQ(first.learning_rate(), 0.25);
  EXPECT_EQ(Next().progress().inner_step(), 4);
  const v1::Evaluation evaluation = Next().evaluations(0);
  EXPECT_EQ(evaluation.loss(), 2.5);
  EXPECT_TRUE(evaluation.of_pool());
  EXPECT_EQ(evaluation.metrics(0).name(), "loss");
  EXPECT_TRUE(Next().merged());
}

TEST_F(RankReporterTest, AClockThatIsSetBackHoldsNoProgressBack) {
  {
    RankReporter reporter(ends_[1], 10, &monitor_);
    reporter.Progress({.inner_step = 1});
    seconds_set_back = 3600;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    reporter.Progress({.inner_step = 2});
    seconds_set_back = 0;
  }
  close(ends_[1]);
  EXPECT_EQ(Next().progress().inner_step(), 1);
  EXPECT_EQ(Next().progress().inner_step(), 2);
}

TEST_F(RankReporterTest, AnAgentThatDoesNotReadHoldsNothingUp) {
  {
    RankReporter reporter(ends_[1], 1'000'000'000, &monitor_);
    for (int step = 1; step < 5000; ++step) {  // Far more than a pipe holds.
      reporter.Progress({.inner_step = step});
      reporter.Flush();
    }
  }
  close(ends_[1]);
  EXPECT_EQ(Next().progress().inner_step(), 1);
}

// A message may quote what lies in a file: any bytes, and any number of them.
TEST_F(RankReporterTest, EveryFaultArrives) {
  const std::string words[] = {"line 3: '\xFF\xFE'", "'" + std::string(1 << 20, 'x') + "'",
                               "'" + std::string(1 << 20, '\x01') + "'", "\xE2\x82"};
  std::thread writer([&] {
    RankReporter reporter(ends_[1], 10, &monitor_);
    for (const std::string& message : words) {
      reporter.Failure(DescribeFault(FaultOrigin::kPreparation, v1::JobSpec(),
                                     absl::InvalidArgumentError(message)));
    }
  });
  for (const std::string& message : words) {
    const v1::JobError failure = Next().failure();
    EXPECT_EQ(failure.fault_class(), v1::SITE_FAULT);
    EXPECT_EQ(failure.message().substr(0, 6), ToUtf8(message).substr(0, 6));
  }
  writer.join();
  close(ends_[1]);
}

// A program that the rank started may outlive it, and would hold the agent's end open.
TEST_F(RankReporterTest, ProgramsThatARankStartsDoNotInheritThePipe) {
  const RankReporter reporter(ends_[1], 10, &monitor_);
  EXPECT_NE(fcntl(ends_[1], F_GETFD) & FD_CLOEXEC, 0);
}

TEST(MemoryDeathTest, TooLittleMemoryIsReported) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have an operator new of their own";
#endif
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EXIT(
      {
        ReportWhenMemoryEnds(ends[1]);
        (void)::operator new (size_t{1} << 60);
      },
      testing::ExitedWithCode(11), "");
  char line[4096] = {};
  ASSERT_GT(read(ends[0], line, sizeof(line) - 1), 0);
  const auto report = ParseRankReport(line);
  ASSERT_TRUE(report.ok()) << line;
  const v1::JobError& failure = std::get<v1::HeartbeatRequest>(*report).failure();
  EXPECT_EQ(failure.fault_class(), v1::SITE_FAULT);
  EXPECT_EQ(failure.code(), "RESOURCE_EXHAUSTED");
}

}  // namespace
}  // namespace longhaul
