// What pools tell of their work in heartbeats: summed over incarnations, kept over a restart.
//   input: for each report: u8 incarnation | i64 start step | string PoolProgress
#include "coordinator/effects/job_progress.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace longhaul::fuzz::job_progress_fuzz {
namespace {

using coordinator::JobProgress;

constexpr int64_t kCountMax = int64_t{1} << 50;

bool InRange(int64_t count) { return count >= 0 && count <= kCountMax; }

void CheckSums(const JobProgress& progress) {
  for (const auto& [name, history] : progress.pools()) {
    const v1::PoolProgress total = history.Total();
    LH_CHECK(InRange(total.tokens()) && InRange(total.inner_step()) && InRange(history.steps()),
             "sums that cannot overflow");
    LH_CHECK(total.compute_seconds() >= 0 && total.tokens_per_second() >= 0, "no negative times");
  }
}

}  // namespace

std::vector<Seed> Seeds() {
  v1::PoolProgress progress;
  progress.set_inner_step(30);
  progress.set_tokens(4096);
  progress.set_compute_seconds(2.5);
  FuzzWriter reports;
  for (const int incarnation : {0, 0, 2}) {
    reports.Byte(incarnation).Put(int64_t{incarnation * 10}).String(progress.SerializeAsString());
  }
  return {{"reports", reports.Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  coordinator::JobProgress progress(1);
  for (int reports = 0; !input.empty() && reports < 64; ++reports) {
    const std::string incarnation = std::to_string(input.Byte());
    const int64_t start_step = input.Take<int64_t>() & (kCountMax - 1);
    v1::PoolProgress told;
    if (!told.ParseFromString(std::string(input.String()))) continue;
    progress.Report("oslo", incarnation, start_step, std::move(told));
    CheckSums(progress);
  }
  store::v1::JobCounters saved, again;
  progress.Save(&saved);
  coordinator::JobProgress restored(1);
  restored.Restore(saved);
  CheckSums(restored);
  restored.Save(&again);
  LH_CHECK(saved.SerializeAsString() == again.SerializeAsString(), "nothing is lost on the way");
  return 0;
}

}  // namespace longhaul::fuzz::job_progress_fuzz
