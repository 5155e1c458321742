// What jobs that have ended leave behind in a coordinator, and its start with many jobs.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/benchmark/coordinator/figures.h"
#include "tests/benchmark/coordinator/pool_driver.h"
#include "tests/benchmark/coordinator/served.h"
#include "tests/benchmark/harness/row.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::benchmark {
namespace {

constexpr int64_t kIdleElements = 4096;

class Folder {
 public:
  Folder() : served_(dir_.path()) { served_.Start(); }

  // Jobs of one pool, one after another, each to its end.
  void RunToEnd(int count) {
    PoolDriver driver(served_.address(), "pool-ended");
    driver.Join();
    for (int i = 0; i < count; ++i) {
      const v1::JobSpec spec =
          SpecOf(absl::StrCat("ended-", next_++), 2, kIdleElements, 2, v1::FP32, {"pool-ended"});
      driver.Take(served_.Submit(spec), spec);
      driver.AwaitOpen();
      driver.Seed();
      driver.Rounds();
      driver.Finish();
      // As if a job ended each second.
      served_.clock().Skip(absl::Seconds(1));
    }
    served_.ForgetEnded();
  }

  // Jobs that go on, each with a pool of its own and some rounds in its log.
  void Begin(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string pool = absl::StrCat("pool-", i);
      const v1::JobSpec spec =
          SpecOf(absl::StrCat("live-", i), 2, kIdleElements, 1'000'000'000, v1::FP32, {pool});
      PoolDriver driver(served_.address(), pool);
      driver.Join();
      live_.push_back({served_.Submit(spec), pool, spec});
      driver.Take(live_.back().id, spec);
      driver.AwaitOpen();
      driver.Seed();
      for (int round = 0; round < 4; ++round) {
        for (int fragment = 0; fragment < 2; ++fragment) driver.Round(fragment);
      }
    }
  }

  struct Seconds {
    double serves = 0, all = 0;
  };
  // Until it serves; until every live job's pool has its plan again, which tells that the job's
  // store is open.
  Seconds Restart() {
    served_.Stop();
    Seconds seconds;
    seconds.serves = longhaul::benchmark::Seconds([this] { served_.Start(); });
    seconds.all = seconds.serves + longhaul::benchmark::Seconds([this] {
                    for (const Live& live : live_) {
                      PoolDriver driver(served_.address(), live.pool);
                      driver.Join();
                      driver.Take(live.id, live.spec);
                    }
                  });
    return seconds;
  }

 private:
  struct Live {
    std::string id, pool;
    v1::JobSpec spec;
  };
  const TempDir dir_;
  Served served_;
  int next_ = 0;
  std::vector<Live> live_;
};

}  // namespace

void BenchmarkJobs(const Scale& scale) {
  const int ended = scale.ended > 0 ? scale.ended : scale.smoke ? 4 : 1000;
  const int live = scale.live > 0 ? scale.live : scale.smoke ? 2 : 100;
  Folder folder;
  // Memory that is taken once, by whichever jobs are the first.
  const int first = ended / 4;
  folder.RunToEnd(first);
  const int64_t before = ResidentBytes(true);
  folder.RunToEnd(ended - first);
  const double kilobytes =
      1e-3 * static_cast<double>(ResidentBytes(true) - before) / (ended - first);
  Print({.name = "resident_bytes_of_an_ended_job",
         .ours = kilobytes,
         .reference = 20,
         .ratio = 20 / std::max(kilobytes, 1e-3),
         .target = 1,
         .unit = "KB",
         .note = absl::StrCat("growth over ", ended - first,
                              " jobs, with their pool in the same process; reference: the most "
                              "that is allowed")});
  folder.Begin(live);
  const Folder::Seconds seconds = folder.Restart();
  const std::string note =
      absl::StrCat(ended, " ended and ", live, " live jobs; reference: the most that is allowed");
  Print({.name = "start_until_it_serves",
         .ours = seconds.serves,
         .reference = 5,
         .ratio = 5 / seconds.serves,
         .target = std::nullopt,
         .unit = "s",
         .note = note});
  Print({.name = "start_until_all_plans",
         .ours = seconds.all,
         .reference = 5,
         .ratio = 5 / seconds.all,
         .target = 1,
         .unit = "s",
         .note = note + "; all pools joined one after another and have their plans again"});
}

}  // namespace longhaul::benchmark
