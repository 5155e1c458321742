// What calls of pools cost the thread that serves all of them, whatever they carry: its time on a
// core for each call, over real gRPC, beside jobs that live. First, what of that is the machine's:
// the time of such a thread for a task that does nothing, when it is woken up for each.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "coordinator/effects/owner_thread.h"
#include "tests/benchmark/coordinator/figures.h"
#include "tests/benchmark/coordinator/pool_driver.h"
#include "tests/benchmark/coordinator/served.h"
#include "tests/benchmark/harness/row.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::benchmark {
namespace {

constexpr int64_t kElements = 4096;
constexpr int kKeptJobs = 256;

// Of the only owner thread of this process.
double OwnerSeconds() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != coordinator::kOwnerThreadName) continue;
    double nanoseconds = 0;
    std::ifstream(task.path() / "schedstat") >> nanoseconds;
    return 1e-9 * nanoseconds;
  }
  OrEnd(absl::NotFoundError("no owner thread"), "the owner thread's time");
  return 0;
}

void PrintRow(const std::string& name, const std::string& note, double microseconds) {
  Print({.name = name,
         .ours = microseconds,
         .reference = 20,
         .ratio = 20 / std::max(microseconds, 1e-3),
         .target = std::nullopt,
         .unit = "us",
         .note = absl::StrCat(note, "; reference: the most that is allowed for a call")});
}

void MeasureWaking(int calls) {
  const std::unique_ptr<Clock> clock = MakeSystemClock();
  coordinator::OwnerThread owner({}, clock.get(), [] {});
  const auto wake = [&] {
    absl::Notification done;
    OrEnd(owner.Post([&] { done.Notify(); }) ? absl::OkStatus() : absl::InternalError("full"),
          "a task");
    done.WaitForNotification();
    // The time in which a call comes over the network.
    absl::SleepFor(absl::Microseconds(100));
  };
  wake();
  const double before = OwnerSeconds();
  for (int i = 0; i < calls; ++i) wake();
  PrintRow("owner_wake", "a task that does nothing, of a thread that is woken up for it",
           1e6 * (OwnerSeconds() - before) / calls);
}

}  // namespace

void BenchmarkCalls(const Scale& scale) {
  const int live = scale.live > 0 ? scale.live : scale.smoke ? 2 : 100;
  const int calls = scale.smoke ? 10 : 2000;
  MeasureWaking(calls);
  const TempDir dir;
  Served served(dir.path());
  served.Start();
  // Each in a job that waits for a second pool, so that placement has something to look at.
  for (int i = 0; i < live; ++i) {
    v1::JobSpec spec = SpecOf(absl::StrCat("live-", i), 2, kElements, 1'000'000'000, v1::FP32,
                              {absl::StrCat("pool-", i), "nobody"});
    spec.mutable_pools()->set_min(2);
    spec.mutable_pools()->set_max(2);
    (void)served.Submit(spec);
    PoolDriver(served.address(), absl::StrCat("pool-", i)).Join();
  }
  const v1::JobSpec spec = SpecOf("work", 2, kElements, 1'000'000'000, v1::FP32, {"pool-work"});
  PoolDriver driver(served.address(), "pool-work");
  driver.Join();
  driver.Take(served.Submit(spec), spec);
  driver.AwaitOpen();
  driver.Seed();
  v1::HeartbeatRequest plain;
  plain.mutable_progress()->set_inner_step(1);
  v1::HeartbeatRequest asking = plain;
  for (int i = 0; i < kKeptJobs; ++i) asking.add_kept_jobs(absl::StrCat("20260101-000000-", i));
  // What it does every second in any case.
  double before = OwnerSeconds();
  const double idle = Seconds([&] { absl::SleepFor(absl::Seconds(scale.smoke ? 1 : 5)); });
  const double each_second = (OwnerSeconds() - before) / idle;
  const auto row = [&](const std::string& name, const std::string& note,
                       const std::function<void()>& call) {
    for (int i = 0; i < calls / 10; ++i) call();
    before = OwnerSeconds();
    const double took = Seconds([&] {
      for (int i = 0; i < calls; ++i) call();
    });
    const double microseconds = 1e6 * (OwnerSeconds() - before - took * each_second) / calls;
    PrintRow(name,
             absl::StrCat(note, ", of the owner thread, waking up included; ", live, " jobs live"),
             microseconds);
  };
  const auto beat = [&](const v1::HeartbeatRequest& request) {
    return [&driver, request] { OrEnd(driver.pool().Heartbeat(request).status(), "a heartbeat"); };
  };
  row("owner_heartbeat_idle", "a heartbeat without progress", beat({}));
  row("owner_heartbeat", "a heartbeat with progress", beat(plain));
  row("owner_heartbeat_kept_jobs", absl::StrCat("one that asks for ", kKeptJobs, " jobs"),
      beat(asking));
  row("owner_join_again", "a join of a live incarnation", [&] { driver.Join(); });
}

}  // namespace longhaul::benchmark
