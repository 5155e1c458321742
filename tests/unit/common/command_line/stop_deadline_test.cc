#include "common/command_line/stop_deadline.h"

#include <signal.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "common/base/exit_code.h"
#include "common/base/stop_signals.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

// A program whose main thread waits without end after it was asked to stop.
[[noreturn]] void RunStuck(absl::Duration patience, absl::Duration stuck_patience,
                           absl::Duration rest, const char* stands) {
  const sigset_t signals = BlockStopSignals();
  StopDeadline& deadline = StopDeadline::Start(
      signals, {.patience = patience,
                .stuck_patience = stuck_patience,
                .stands = [stands] { return std::string(stands); },
                .on_stop = [] { (void)!write(STDERR_FILENO, "asked\n", 6); },
                .log = Logger({.program = "test", .format = LogFormat::kText})});
  kill(getpid(), SIGTERM);
  deadline.EndWithin(rest);
  while (true) pause();
}

constexpr absl::Duration kNow = absl::ZeroDuration(), kNever = absl::InfiniteDuration();

class StopDeadlineTest : public ::testing::Test {
 protected:
  StopDeadlineTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(StopDeadlineTest, WhatStandsStillEndsTheProgramAndIsNamed) {
  EXPECT_EXIT(RunStuck(kNever, kNow, kNever, "a disk"), testing::ExitedWithCode(kExitStuck),
              "asked\n.*error +was asked to stop .* ago and exits now without finishing: a disk");
}

TEST_F(StopDeadlineTest, AnEndThatTakesTooLongIsCutOff) {
  const char* const words = "finishing: an operation that it waits for hangs";
  EXPECT_EXIT(RunStuck(kNow, kNow, kNever, ""), testing::ExitedWithCode(kExitStuck), words);
  EXPECT_EXIT(RunStuck(kNever, kNever, kNow, ""), testing::ExitedWithCode(kExitStuck), words);
}

TEST_F(StopDeadlineTest, TheSecondSignalEndsItAtOnce) {
  const auto run = [] {
    const sigset_t signals = BlockStopSignals();
    StopDeadline::Start(signals, {.patience = kNever, .stuck_patience = kNever, .on_stop = [] {
                                    kill(getpid(), SIGTERM);
                                  }});
    kill(getpid(), SIGTERM);
    while (true) pause();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(128 + SIGTERM), "");
}

}  // namespace
}  // namespace longhaul
