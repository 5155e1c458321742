// What many jobs, long works of others and many streams cost the coordinator.
//   coordinator_benchmark [steps|jobs|commits|pushes|calls]... [--smoke] [--ended=N] [--live=N]
//                         [--cycles=N]
// Without a name: all, each in a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/mutex_checks.h"
#include "tests/benchmark/coordinator/figures.h"

namespace longhaul::benchmark {
namespace {

using Benchmark = void (*)(const Scale&);
constexpr std::pair<absl::string_view, Benchmark> kBenchmarks[] = {{"steps", BenchmarkSteps},
                                                                   {"jobs", BenchmarkJobs},
                                                                   {"commits", BenchmarkCommits},
                                                                   {"pushes", BenchmarkPushes},
                                                                   {"calls", BenchmarkCalls}};

// False: no such option.
bool TakeOption(absl::string_view word, Scale* scale) {
  if (word == "--smoke") return scale->smoke = true;
  for (const auto& [prefix, value] :
       {std::pair("--ended=", &scale->ended), std::pair("--live=", &scale->live),
        std::pair("--cycles=", &scale->cycles)}) {
    absl::string_view digits = word;
    if (absl::ConsumePrefix(&digits, prefix)) return absl::SimpleAtoi(digits, value) && *value > 0;
  }
  return false;
}

// In a process of its own, so that neither memory nor threads of one are there for the next.
bool RunApart(Benchmark benchmark, const Scale& scale) {
  const pid_t child = fork();
  LH_CHECK(child >= 0, "a process for the benchmark");
  if (child == 0) {
    benchmark(scale);
    std::cout.flush();
    std::_Exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int Main(const std::vector<absl::string_view>& words) {
  Scale scale;
  std::vector<Benchmark> chosen;
  for (const absl::string_view word : words) {
    bool known = TakeOption(word, &scale);
    for (const auto& [name, benchmark] : kBenchmarks) {
      if (name != word) continue;
      chosen.push_back(benchmark);
      known = true;
    }
    if (known) continue;
    std::cerr << "unknown word: " << word << std::endl;
    return 4;
  }
  if (chosen.empty()) {
    for (const auto& [name, benchmark] : kBenchmarks) chosen.push_back(benchmark);
  }
  bool well = true;
  for (const Benchmark benchmark : chosen) well &= RunApart(benchmark, scale);
  return well ? 0 : 1;
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) {
  longhaul::SkipLockCycleSearch();
  return longhaul::benchmark::Main({argv + 1, argv + argc});
}
