// The files of a run's curves, as a crash or somebody else left them.
//   input: string of scalars.jsonl | rest: the event file
#include "common/base/check.h"
#include "common/io/file_util.h"
#include "common/track/record.h"
#include "common/track/tracked_run.h"
#include "longhaul/track/v1/event.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul::fuzz::tracked_run_fuzz {
namespace {

constexpr char kEvents[] = "run/events.out.tfevents.0000000001.longhaul";
constexpr char kLines[] = "run/scalars.jsonl";

TrackedStep StepAt(int64_t step) { return {step, absl::FromUnixSeconds(2), {{"train/loss", 1.5}}}; }

std::unique_ptr<MemoryFileSystem> Disk(absl::string_view lines, absl::string_view events) {
  auto fs = std::make_unique<MemoryFileSystem>();
  LH_CHECK(fs->CreateDir("run").ok(), "a folder");
  LH_CHECK((*fs->Create(kEvents))->WriteAt(0, events).ok(), "a file");
  LH_CHECK((*fs->Create(kLines))->WriteAt(0, lines).ok(), "a file");
  return fs;
}

}  // namespace

std::vector<Seed> Seeds() {
  const auto seed = [](const std::function<void(TrackedRun&)>& write) {
    const auto fs = std::make_unique<MemoryFileSystem>();
    const auto run = TrackedRun::Open(fs.get(), "run", absl::FromUnixSeconds(1));
    write(**run);
    return FuzzWriter()
        .String(*ReadFile(*fs, kLines, 1 << 16))
        .Bytes(*ReadFile(*fs, kEvents, 1 << 16))
        .Take();
  };
  return {{"empty", seed([](TrackedRun&) {})},
          {"steps", seed([](TrackedRun& run) {
             (void)run.AddText(absl::FromUnixSeconds(1), "spec", "name: x");
             for (int64_t step : {1, 2, 5}) (void)run.Add(StepAt(step));
           })},
          {"rewound", seed([](TrackedRun& run) {
             (void)run.AddSometimes("a", absl::ZeroDuration(), StepAt(7));
             (void)run.AddSometimes("b", absl::ZeroDuration(), StepAt(3));
           })}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const std::string lines(input.String());
  const auto fs = Disk(lines, input.Rest());
  const int64_t step = int64_t{1} << 60;
  for (int start = 0; start < 2; ++start) {
    const auto run = TrackedRun::Open(fs.get(), "run", absl::FromUnixSeconds(2));
    LH_CHECK(run.ok(), "whatever is there, the run goes on");
    LH_CHECK((*run)->AddSometimes("again", absl::ZeroDuration(), StepAt(step + start)).ok(),
             "and takes a step");
  }
  const std::string after = *ReadFile(*fs, kLines, 1 << 24);
  LH_CHECK(!after.empty() && after.back() == '\n', "lines end");
  return 0;
}

}  // namespace longhaul::fuzz::tracked_run_fuzz
