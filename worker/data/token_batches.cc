#include "worker/data/token_batches.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "common/base/share.h"
#include "common/base/status_macros.h"

namespace longhaul {

absl::Status ReadDocumentStarts(const Dataset& data, int64_t first, absl::Span<int64_t> starts) {
  std::fill(starts.begin(), starts.end(), 0);
  std::vector<int64_t> begins;
  LH_RETURN_IF_ERROR(
      data.AppendDocumentStarts(first, first + static_cast<int64_t>(starts.size()), begins));
  for (size_t i = 0; i < begins.size(); ++i) {
    const auto end =
        i + 1 == begins.size() ? starts.end() : starts.begin() + (begins[i + 1] - first);
    std::fill(starts.begin() + (begins[i] - first), end, begins[i] - first);
  }
  return absl::OkStatus();
}

TokenBatches::TokenBatches(const Options& options, std::vector<std::unique_ptr<Dataset>> datasets,
                           const ExamplePlan& plan)
    : options_(options),
      datasets_(std::move(datasets)),
      plan_(plan),
      masked_(absl::c_any_of(datasets_, [](const auto& data) { return data->masked(); })) {}

absl::StatusOr<ExampleBatch> TokenBatches::Make(int64_t step) const {
  return Read([&](int64_t place) { return plan_.Train(step, place); });
}

absl::StatusOr<ExampleBatch> TokenBatches::MakeHeldOut(int64_t index, int64_t count) const {
  return Read([&](int64_t place) {
    return plan_.Eval(index * options_.batch + place, count * options_.batch);
  });
}

absl::StatusOr<int64_t> TokenBatches::HeldOutWeight(int64_t count) const {
  const int64_t examples = count * options_.batch;
  return TargetsOf(examples, [&](int64_t place) { return plan_.Eval(place, examples); });
}

absl::Status TokenBatches::ReadLossMask(const ExamplePlan::Example& example,
                                        absl::Span<int64_t> mask) const {
  // Targets are the tokens after the first.
  return datasets_[example.source]->ReadMask(example.first + 1, mask);
}

// All ranks must divide by the same number, and before their gradients are summed. So each reads
// the masks of the whole batch, which takes less than to ask the others.
absl::StatusOr<int64_t> TokenBatches::TargetsOf(
    int64_t examples, absl::FunctionRef<ExamplePlan::Example(int64_t place)> example) const {
  if (!masked_) return examples * options_.context;
  int64_t targets = 0;
  std::vector<int64_t> mask(options_.context);
  for (int64_t place = 0; place < examples; ++place) {
    LH_RETURN_IF_ERROR(ReadLossMask(example(place), absl::MakeSpan(mask)));
    targets = absl::c_accumulate(mask, targets);
  }
  return targets;
}

absl::StatusOr<ExampleBatch> TokenBatches::Read(
    absl::FunctionRef<ExamplePlan::Example(int64_t place)> example) const {
  const Share share = ShareOf(options_.batch, options_.rank, options_.ranks);
  std::vector<ExamplePlan::Example> examples;
  for (int64_t i = 0; i < share.count; ++i) examples.push_back(example(share.first + i));
  ExampleBatch batch{.examples = share.count};
  LH_ASSIGN_OR_RETURN(batch.pool_weight, TargetsOf(options_.batch, example));
  // Fills a tensor in, example by example.
  const auto add = [&](const char* name, int64_t width, auto&& read) -> absl::Status {
    std::vector<int64_t> values(batch.examples * width);
    for (size_t i = 0; i < examples.size(); ++i)
      LH_RETURN_IF_ERROR(read(examples[i], absl::MakeSpan(values).subspan(i * width, width)));
    batch.tensors.push_back({name, {batch.examples, width}, std::move(values)});
    return absl::OkStatus();
  };
  const auto data = [&](const ExamplePlan::Example& of) -> const Dataset& {
    return *datasets_[of.source];
  };
  LH_RETURN_IF_ERROR(add("tokens", options_.context + 1,
                         [&](const auto& of, auto out) { return data(of).Read(of.first, out); }));
  if (options_.separate_documents) {
    LH_RETURN_IF_ERROR(add("document_starts", options_.context, [&](const auto& of, auto out) {
      return ReadDocumentStarts(data(of), of.first, out);
    }));
  }
  if (masked_) {
    LH_RETURN_IF_ERROR(add("loss_mask", options_.context,
                           [&](const auto& of, auto out) { return ReadLossMask(of, out); }));
  }
  return batch;
}

}  // namespace longhaul
