#include "worker/measure/host_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/plan/job/measured_rates.h"
#include "worker/measure/host_kernels.h"
#include "worker/measure/rate.h"

namespace longhaul {
namespace {

TEST(HostFiguresTest, MeasuresWhatForecastsNeed) {
  int exchanges = 0;
  const auto figures = MeasureHost({.version = "1.0", .exchange = [&](absl::Duration) {
                                      ++exchanges;
                                      return 2e9;
                                    }});
  ASSERT_TRUE(figures.ok()) << figures.status();
  const auto faults = plan::FaultsOf(*figures, "figures");
  EXPECT_TRUE(faults.empty()) << faults[0].field;
  EXPECT_EQ(figures->version(), "1.0");
  EXPECT_EQ(figures->machine(), MachineOf(1, 1));
  for (const int dim : {96, 256, 1024}) {
    EXPECT_TRUE(plan::MeasuredTeraflops(*figures, dim, false).has_value());
    EXPECT_TRUE(plan::MeasuredTeraflops(*figures, dim, true).has_value());
  }
  for (const CodecRow& codec : kCodecs)
    EXPECT_TRUE(plan::MeasuredEncoding(*figures, static_cast<v1::Codec>(codec.kind)).has_value());
  EXPECT_TRUE(plan::MeasuredUpdates(*figures, 1e6).has_value());
  EXPECT_TRUE(plan::MeasuredCopying(*figures).has_value());
  ASSERT_EQ(figures->kernels_size(), 3);
  EXPECT_EQ(exchanges, 1);
  EXPECT_EQ(figures->exchange_gb_per_second(), 2);
  EXPECT_GT(figures->seconds(), 0);
}

TEST(HostFiguresTest, WhatCannotBeMeasuredIsLeftOut) {
  const auto figures = MeasureHost(
      {.exchange = [](absl::Duration) { return absl::UnavailableError("no loopback"); }});
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_EQ(figures->exchange_gb_per_second(), 0);
  const auto late = MeasureHost({.until = SteadyTime() - absl::UnixEpoch()});
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
}

TEST(HostKernelsTest, EachWorksOverItsLeastAndLargerSets) {
  for (const HostKernel& kernel : HostKernels()) {
    for (const int64_t bytes : {int64_t{0}, kernel.bytes_min, 3 * kernel.bytes_min + 1000}) {
      const KernelRun run = kernel.make(bytes);
      EXPECT_GT(run.elements, 0) << kernel.name;
      run.run();
      run.run();
    }
  }
  EXPECT_EQ(FindHostKernel("abacus"), nullptr);
}

TEST(HostKernelsTest, WorkingSetsGrowEvenly) {
  EXPECT_THAT(WorkingSets(1024, 4096, 1), testing::ElementsAre(1024, 2048, 4096));
  EXPECT_THAT(WorkingSets(1024, 2048, 2), testing::ElementsAre(1024, 1448, 2048));
  EXPECT_THAT(WorkingSets(1024, 1000, 2), testing::IsEmpty());
}

// Threads that work at once count together.
TEST(RateTest, IsThatOfAllThreads) {
  std::atomic<int> made = 0;
  const double rate = RateOf(
      [&] {
        ++made;
        return KernelRun{1000, [] { absl::SleepFor(absl::Milliseconds(1)); }};
      },
      3, absl::Milliseconds(20));
  EXPECT_EQ(made, 3);
  EXPECT_GT(rate, 0);
  EXPECT_LE(rate, 3 * 1000 / 1e-3);
  // Threads beyond the processors add nothing.
  const auto spin = [] {
    return KernelRun{1, [] {
                       const absl::Time end = SteadyTime() + absl::Microseconds(100);
                       while (SteadyTime() < end) {
                       }
                     }};
  };
  const int processors = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  EXPECT_LE(RateOf(spin, 8 * processors, absl::Milliseconds(20)), 1.01 * processors / 100e-6);
}

}  // namespace
}  // namespace longhaul
