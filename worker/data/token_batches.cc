#include "worker/data/token_batches.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/data/windows.h"

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
    : options_(options), datasets_(std::move(datasets)), plan_(plan) {}

absl::StatusOr<ExampleBatch> TokenBatches::Make(int64_t step) const {
  const Share share = ShareOf(options_.batch, options_.rank, options_.ranks);
  std::vector<ExamplePlan::Example> examples;
  for (int64_t i = 0; i < share.count; ++i) examples.push_back(plan_.Train(step, share.first + i));
  return Read(examples);
}

absl::StatusOr<ExampleBatch> TokenBatches::MakeHeldOut(int64_t index, int64_t count) const {
  const Share share = ShareOf(options_.batch, options_.rank, options_.ranks);
  std::vector<ExamplePlan::Example> examples;
  for (int64_t i = 0; i < share.count; ++i) {
    examples.push_back(
        plan_.Eval(index * options_.batch + share.first + i, count * options_.batch));
  }
  return Read(examples);
}

absl::StatusOr<ExampleBatch> TokenBatches::Read(
    const std::vector<ExamplePlan::Example>& examples) const {
  const int64_t size = options_.context + 1;
  ExampleBatch batch{.examples = static_cast<int64_t>(examples.size())};
  BatchTensor tokens{.name = "tokens", .shape = {batch.examples, size}};
  tokens.values.resize(batch.examples * size);
  for (size_t i = 0; i < examples.size(); ++i) {
    const auto [source, first] = examples[i];
    const absl::Span<int64_t> example = absl::MakeSpan(tokens.values).subspan(i * size, size);
    LH_RETURN_IF_ERROR(datasets_[source]->Read(first, example));
  }
  batch.tensors.push_back(std::move(tokens));
  if (!options_.separate_documents) return batch;
  BatchTensor starts{.name = "document_starts", .shape = {batch.examples, options_.context}};
  starts.values.resize(batch.examples * options_.context);
  for (size_t i = 0; i < examples.size(); ++i) {
    LH_RETURN_IF_ERROR(ReadDocumentStarts(
        *datasets_[examples[i].source], examples[i].first,
        absl::MakeSpan(starts.values).subspan(i * options_.context, options_.context)));
  }
  batch.tensors.push_back(std::move(starts));
  return batch;
}

}  // namespace longhaul
