#include "worker/data/example_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "common/base/status_marks.h"
#include "worker/data/permutation.h"

namespace longhaul {
namespace {

constexpr uint64_t kMixtureStream = 0x6d6978;  // "mix"

// The first source keeps the job's seed, so that a mixture of one source has the order of that
// source alone.
uint64_t SeedOf(uint64_t seed, size_t source) {
  return source == 0 ? seed : Philox64(seed, kMixtureStream, source);
}

}  // namespace

absl::StatusOr<ExamplePlan> ExamplePlan::Create(const Options& options) {
  LH_CHECK(!options.sources.empty() && options.batch > 0, "impossible options of examples");
  std::vector<Windows> windows;
  double sum = 0;
  for (const Source& source : options.sources) sum += source.weight;
  std::vector<int64_t> ends;
  double before = 0;
  for (size_t i = 0; i < options.sources.size(); ++i) {
    const Source& source = options.sources[i];
    LH_CHECK(source.weight > 0, "a weight must be above 0");
    absl::StatusOr<Windows> made = Windows::Create({.tokens = source.tokens,
                                                    .context = options.context,
                                                    .eval_fraction = options.eval_fraction,
                                                    .seed = SeedOf(options.seed, i),
                                                    .pool = options.pool,
                                                    .row = source.row});
    if (!made.ok()) return WithContext(source.name, made.status());
    windows.push_back(*std::move(made));
    before += source.weight;
    ends.push_back(std::llround(before / sum * static_cast<double>(kMixtureBlock)));
    if (ends.back() == (i == 0 ? 0 : ends[i - 1])) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: its weight %g is less than 1/%d of all weights", source.name,
                          source.weight, kMixtureBlock));
    }
  }
  return ExamplePlan(options, std::move(windows), std::move(ends));
}

ExamplePlan::ExamplePlan(const Options& options, std::vector<Windows> windows,
                         std::vector<int64_t> ends)
    : order_(options.order),
      batch_(options.batch),
      key_(Philox64(options.seed, kMixtureStream << 32, static_cast<uint64_t>(options.pool))),
      windows_(std::move(windows)),
      ends_(std::move(ends)) {}

ExamplePlan::Example ExamplePlan::Train(int64_t step, int64_t sequence) const {
  const int64_t example = std::max<int64_t>(0, step - 1) * batch_ + sequence;
  int source = 0;
  int64_t of_source = example;
  if (windows_.size() > 1) {
    const int64_t block = example / kMixtureBlock;
    const int64_t dealt =
        Permute(key_ + static_cast<uint64_t>(block), kMixtureBlock, example % kMixtureBlock);
    source = static_cast<int>(std::upper_bound(ends_.begin(), ends_.end(), dealt) - ends_.begin());
    const int64_t begin = source == 0 ? 0 : ends_[source - 1];
    of_source = block * (ends_[source] - begin) + (dealt - begin);
  }
  const Windows& windows = windows_[source];
  const bool epochs = order_ == DataOrder::kEpochs;
  return {source, epochs ? windows.InEpochs(of_source) : windows.Train(step, sequence)};
}

ExamplePlan::Example ExamplePlan::Eval(int64_t index, int64_t count) const {
  LH_CHECK(0 <= index && index < count, "evaluation window out of range");
  int64_t begin = 0;
  for (int source = 0;; ++source) {
    const int64_t end = (ends_[source] * count + kMixtureBlock / 2) / kMixtureBlock;
    if (index < end) return {source, windows_[source].Eval(index - begin, end - begin)};
    begin = end;
  }
}

}  // namespace longhaul
