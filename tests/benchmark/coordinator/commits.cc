// The latency of one job's commits while another job's final checkpoint is written, and while a new
// job opens and gets its initial parameters, against the quiet times between.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/benchmark/coordinator/figures.h"
#include "tests/benchmark/coordinator/pool_driver.h"
#include "tests/benchmark/coordinator/served.h"
#include "tests/benchmark/harness/row.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::benchmark {
namespace {

constexpr int64_t kSmallElements = 16 << 10;
// A WatchPlan stream of a hand-driven pool lives for kCallTimeout.
constexpr absl::Duration kRenewAfter = absl::Seconds(15);

struct Span {
  absl::Time begin, end;
};

// Pushes and awaits commits of one fragment in a closed loop, on its own thread.
class Loop {
 public:
  explicit Loop(Served& served) : driver_(served.address(), "pool-steady") {
    const v1::JobSpec spec =
        SpecOf("steady", 1, kSmallElements, 1'000'000'000, v1::FP32, {"pool-steady"});
    driver_.Join();
    driver_.Take(served.Submit(spec), spec);
    driver_.AwaitOpen();
    driver_.Seed();
    thread_ = std::thread([this] { Run(); });
  }
  // Ends the loop: the commits, in their order.
  std::vector<Span> Stop() {
    stopping_ = true;
    thread_.join();
    return std::move(commits_);
  }

 private:
  void Run() {
    absl::Time renewed = absl::Now();
    while (!stopping_) {
      if (absl::Now() - renewed > kRenewAfter) {
        driver_.Renew();
        renewed = absl::Now();
      }
      const absl::Time begin = absl::Now();
      driver_.Round(0);
      commits_.push_back({begin, absl::Now()});
    }
  }

  PoolDriver driver_;
  std::vector<Span> commits_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

class Phases {
 public:
  template <typename Work>
  void Run(const std::string& phase, Work work) {
    const absl::Time begin = absl::Now();
    work();
    spans_[phase].push_back({begin, absl::Now()});
  }
  // Milliseconds of the commits that were under way in it.
  std::vector<double> Latencies(const std::string& phase, const std::vector<Span>& commits) const {
    std::vector<double> latencies;
    for (const Span& span : spans_.at(phase)) {
      const auto first =
          std::lower_bound(commits.begin(), commits.end(), span.begin,
                           [](const Span& commit, absl::Time t) { return commit.end <= t; });
      for (auto it = first; it != commits.end() && it->begin < span.end; ++it)
        latencies.push_back(absl::ToDoubleMilliseconds(it->end - it->begin));
    }
    return latencies;
  }
  double SecondsOf(const std::string& phase) const {
    double seconds = 0;
    for (const Span& span : spans_.at(phase))
      seconds += absl::ToDoubleSeconds(span.end - span.begin);
    return seconds / static_cast<double>(spans_.at(phase).size());
  }

 private:
  std::map<std::string, std::vector<Span>> spans_;
};

void Report(const std::string& phase, std::optional<double> target, const Phases& phases,
            const std::vector<Span>& commits) {
  const std::vector<double> ours = phases.Latencies(phase, commits);
  const std::vector<double> quiet = phases.Latencies("quiet", commits);
  for (const auto& [name, part] : {std::pair("p50", 0.5), std::pair("p99", 0.99)}) {
    const double a = Quantile(ours, part), b = Quantile(quiet, part);
    Print({.name = absl::StrCat("commit_", name, "_", phase),
           .ours = a,
           .reference = b,
           .ratio = a > 0 ? b / a : 0,
           .target = part > 0.9 ? target : std::nullopt,
           .unit = "ms",
           .note = absl::StrCat("from the push of 64 KiB to its commit; ", ours.size(),
                                " commits in phases of ", phases.SecondsOf(phase),
                                " s, reference: ", quiet.size(), " in the quiet")});
  }
}

}  // namespace

void BenchmarkCommits(const Scale& scale) {
  const int cycles = scale.cycles > 0 ? scale.cycles : scale.smoke ? 1 : 12;
  const int units = scale.smoke ? 2 : 10;
  const int opens = scale.smoke ? 2 : 40;
  const int64_t elements = scale.smoke ? 10'000 : 10'000'000;
  const absl::Duration quiet = scale.smoke ? absl::Milliseconds(200) : absl::Seconds(4);
  const TempDir dir;
  Served served(dir.path());
  served.Start();
  Loop loop(served);
  Phases phases;
  for (int cycle = 0; cycle < cycles; ++cycle) {
    v1::JobSpec spec = SpecOf("", units, elements, 2, v1::E3M0, {"pool-big"});
    PoolDriver big(served.address(), "pool-big");
    big.Join();
    phases.Run("quiet", [&] { absl::SleepFor(quiet); });
    std::vector<std::string> ids;
    for (int opened = 1;; ++opened) {
      spec.set_name(absl::StrCat("big-", cycle, "-", opened));
      phases.Run("open", [&] {
        ids.push_back(served.Submit(spec));
        big.Take(ids.back(), spec);
        big.AwaitOpen();
      });
      // Each takes as long as a few commits: the last goes on, the others are there to be counted.
      if (opened == opens) break;
      served.Cancel(ids.back());
      big.AwaitEnd();
    }
    phases.Run("seed", [&] { big.Seed(); });
    big.Rounds();
    big.Renew();
    // What the rounds left to the disk.
    absl::SleepFor(quiet / 2);
    phases.Run("checkpoint", [&] { big.Finish(); });
    served.ForgetEnded();
    for (const std::string& id : ids) std::filesystem::remove_all(dir.Join("jobs/" + id));
    absl::SleepFor(quiet / 2);
  }
  const std::vector<Span> commits = loop.Stop();
  Report("checkpoint", 1 / 1.5, phases, commits);
  Report("open", 1 / 1.5, phases, commits);
  Report("seed", std::nullopt, phases, commits);
}

}  // namespace longhaul::benchmark
