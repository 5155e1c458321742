#include "worker/graph/seed_plan.h"

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/random.h"
#include "common/base/share.h"
#include "worker/data/permutation.h"

namespace longhaul {
namespace {

constexpr uint64_t kSeedPlanStream = 0x65706f636873;

}  // namespace

SeedPlan::SeedPlan(const Options& options)
    : options_(options), steps_(CeilDiv(options.seeds, options.batch)) {}

absl::StatusOr<SeedPlan> SeedPlan::Create(const Options& options) {
  if (options.seeds < 1) return absl::InvalidArgumentError("no seeds to train on");
  if (options.batch < 1)
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", options.batch, " seeds"));
  return SeedPlan(options);
}

int64_t SeedPlan::BatchOf(int64_t step) const {
  LH_CHECK(step >= 1, "steps count from 1");
  return ShareOf(options_.seeds, (step - 1) % steps_, steps_).count;
}

std::vector<int64_t> SeedPlan::Take(int64_t step, int rank, int ranks) const {
  LH_CHECK(step >= 1 && 0 <= rank && rank < ranks, "a step and a rank of the pool");
  const int64_t epoch = (step - 1) / steps_;
  const uint64_t key = Philox64(options_.seed ^ kSeedPlanStream,
                                static_cast<uint64_t>(options_.pool), static_cast<uint64_t>(epoch));
  const Share batch = ShareOf(options_.seeds, (step - 1) % steps_, steps_);
  const Share part = ShareOf(batch.count, rank, ranks);
  std::vector<int64_t> seeds;
  seeds.reserve(part.count);
  for (int64_t i = batch.first + part.first; i < batch.first + part.end(); ++i)
    seeds.push_back(Permute(key, options_.seeds, i));
  return seeds;
}

}  // namespace longhaul
