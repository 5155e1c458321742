#include "common/command_line/stop_deadline.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/exit_code.h"
#include "common/logging/standard_error.h"

namespace longhaul {
namespace {

constexpr timespec kLookEach{.tv_sec = 0, .tv_nsec = 200'000'000};
// The line that says why is written meanwhile, if anybody reads it.
constexpr absl::Duration kLastLine = absl::Milliseconds(500);

}  // namespace

StopDeadline& StopDeadline::Start(const sigset_t& signals, Options options) {
  auto& deadline = *new StopDeadline(std::move(options));
  std::thread([&deadline, signals] { deadline.Run(signals); }).detach();
  return deadline;
}

void StopDeadline::EndWithin(absl::Duration rest) {
  absl::MutexLock lock(&mutex_);
  rest_until_ = SteadyTime() + rest;
}

void StopDeadline::Run(const sigset_t& signals) {
  int signal = 0;
  sigwait(&signals, &signal);
  const absl::Time asked = SteadyTime();
  options_.on_stop();
  while (true) {
    if (const int second = sigtimedwait(&signals, nullptr, &kLookEach); second > 0)
      _exit(options_.second_exit != 0 ? options_.second_exit : 128 + second);
    const std::string why = Overdue(asked);
    if (why.empty()) continue;
    options_.log.Error(why);
    FlushStandardError(kLastLine);
    _exit(kExitStuck);
  }
}

std::string StopDeadline::Overdue(absl::Time asked) {
  const absl::Time now = SteadyTime();
  absl::Time rest_until;
  {
    absl::MutexLock lock(&mutex_);
    rest_until = rest_until_;
  }
  const bool late = now >= std::min(asked + options_.patience, rest_until);
  if (!late && now < asked + options_.stuck_patience) return "";
  const std::string what = options_.stands ? options_.stands() : "";
  if (!late && what.empty()) return "";
  return absl::StrCat("was asked to stop ",
                      absl::FormatDuration(absl::Trunc(now - asked, absl::Seconds(1))),
                      " ago and exits now without finishing: ",
                      what.empty() ? "an operation that it waits for hangs" : what);
}

}  // namespace longhaul
