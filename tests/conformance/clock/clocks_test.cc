#include "tests/conformance/clock_suite.h"

namespace longhaul {
namespace {

class System {
 public:
  Clock& clock() { return *clock_; }
  void Pass(absl::Duration duration) { clock_->Sleep(duration); }

 private:
  const std::unique_ptr<Clock> clock_ = MakeSystemClock();
};

class Manual {
 public:
  Clock& clock() { return clock_; }
  void Pass(absl::Duration duration) { clock_.Advance(duration); }

 private:
  ManualClock clock_;
};

using Clocks = testing::Types<System, Manual>;
INSTANTIATE_TYPED_TEST_SUITE_P(Clocks, ClockSuite, Clocks);

}  // namespace
}  // namespace longhaul
