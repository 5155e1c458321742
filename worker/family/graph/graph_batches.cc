#include "worker/family/graph/graph_batches.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/huge_pages.h"
#include "common/base/random.h"
#include "common/base/share.h"
#include "common/base/status_macros.h"
#include "worker/graph/layer_targets.h"

namespace longhaul {
namespace {

// "dropout". Sampling uses other streams of the same seed.
constexpr uint64_t kDropoutStream = 0x64726f706f7574;

std::vector<int64_t> LabelsOf(const GraphFolder& folder, absl::Span<const int64_t> nodes) {
  std::vector<int64_t> labels;
  for (const int64_t node : nodes) labels.push_back(folder.labels()[node]);
  return labels;
}

template <typename T>
void AddTensor(ExampleBatch& batch, absl::string_view name, int part, std::vector<T> values) {
  const auto size = static_cast<int64_t>(values.size());
  batch.tensors.push_back({PartName(name, part), {size}, std::move(values)});
}

}  // namespace

std::string PartName(absl::string_view tensor, int part) { return absl::StrCat(tensor, "/", part); }

GraphBatches::Reader::Reader(const Options& options, const GraphFolder& folder,
                             std::shared_ptr<HostRows> rows, NeighborSampler sampler, bool gathers)
    : gathers(gathers),
      team(std::make_unique<ThreadTeam>(options.threads)),
      sampler(std::move(sampler)),
      table(rows == nullptr ? MakeMappedTable(&folder, team.get())
                            : MakeHostTable(std::move(rows), team.get())) {}

absl::StatusOr<std::unique_ptr<GraphBatches>> GraphBatches::Create(
    const Options& options, std::shared_ptr<const GraphFolder> folder,
    std::shared_ptr<HostRows> rows) {
  LH_ASSIGN_OR_RETURN(const SeedPlan plan,
                      SeedPlan::Create({.seeds = static_cast<int64_t>(folder->train().size()),
                                        .batch = options.batch,
                                        .seed = options.seed,
                                        .pool = options.pool}));
  LH_ASSIGN_OR_RETURN(
      NeighborSampler training,
      NeighborSampler::Create(folder->edges(), {.fanout = options.fanout,
                                                .seed = options.seed,
                                                .members_only = options.training_edges,
                                                .members = folder->train()}));
  std::unique_ptr<GraphBatches> batches(new GraphBatches(options, folder, plan));
  batches->training_ = std::make_unique<Reader>(options, *folder, std::move(rows),
                                                std::move(training), options.gathers);
  return batches;
}

GraphBatches::GraphBatches(const Options& options, std::shared_ptr<const GraphFolder> folder,
                           const SeedPlan& plan)
    : options_(options), folder_(std::move(folder)), plan_(plan) {}

int64_t GraphBatches::Labelled(const GraphFolder& folder, absl::Span<const int64_t> nodes) {
  int64_t count = 0;
  for (const int64_t node : nodes) count += folder.labels()[node] >= 0 ? 1 : 0;
  return count;
}

absl::StatusOr<ExampleBatch> GraphBatches::Make(int64_t step) const {
  // All ranks must divide by the same number, so each takes the seeds of all.
  std::vector<int64_t> pool = plan_.Take(step, 0, 1);
  for (int64_t& seed : pool) seed = folder_->train()[seed];
  const Share mine = ShareOf(static_cast<int64_t>(pool.size()), options_.rank, options_.ranks);
  ExampleBatch batch{.examples = mine.count, .pool_weight = Labelled(pool)};
  AddDropoutKey(step, batch);
  const absl::Span<const int64_t> seeds =
      absl::MakeConstSpan(pool).subspan(mine.first, batch.examples);
  for (int part = 0; part < options_.accumulation; ++part) {
    const Share of_part = ShareOf(batch.examples, part, options_.accumulation);
    LH_RETURN_IF_ERROR(
        AddPart(*training_, step, seeds.subspan(of_part.first, of_part.count), part, batch));
  }
  LH_RETURN_IF_ERROR(folder_->Check());
  return batch;
}

absl::StatusOr<ExampleBatch> GraphBatches::MakeHeldOut(int64_t index, int64_t count) const {
  return MakeEvaluation(folder_->valid(), index, count);
}

absl::StatusOr<int64_t> GraphBatches::HeldOutWeight(int64_t) const {
  return Labelled(folder_->valid());
}

absl::StatusOr<ExampleBatch> GraphBatches::MakeTest(int64_t index, int64_t count) const {
  return MakeEvaluation(folder_->test(), index, count);
}

int64_t GraphBatches::TestWeight() const { return Labelled(folder_->test()); }

absl::StatusOr<ExampleBatch> GraphBatches::MakeEvaluation(absl::Span<const int64_t> nodes,
                                                          int64_t index, int64_t count) const {
  const Share of_batch = ShareOf(static_cast<int64_t>(nodes.size()), index, count);
  const absl::Span<const int64_t> pool = nodes.subspan(of_batch.first, of_batch.count);
  const Share mine = ShareOf(static_cast<int64_t>(pool.size()), options_.rank, options_.ranks);
  ExampleBatch batch{.examples = mine.count, .pool_weight = Labelled(pool)};
  if (mine.count == 0) return batch;
  const absl::Span<const int64_t> seeds = pool.subspan(mine.first, mine.count);
  LH_ASSIGN_OR_RETURN(
      LayerTargets targets,
      FindLayerTargets(folder_->edges(), seeds, static_cast<int>(options_.fanout.size())));
  AddTensor(batch, "layer_targets", 0, std::move(targets.nodes));
  AddTensor(batch, "layer_target_ends", 0, std::move(targets.ends));
  AddTensor(batch, "labels", 0, LabelsOf(*folder_, seeds));
  LH_RETURN_IF_ERROR(folder_->Check());
  return batch;
}

void GraphBatches::AddDropoutKey(int64_t step, ExampleBatch& batch) const {
  const auto key =
      static_cast<int64_t>(Philox64(options_.seed, kDropoutStream, static_cast<uint64_t>(step)));
  batch.tensors.push_back({"dropout_key", {1}, std::vector<int64_t>{key}});
}

absl::Status GraphBatches::AddPart(Reader& reader, int64_t step, absl::Span<const int64_t> seeds,
                                   int part, ExampleBatch& batch) const {
  if (seeds.empty()) return absl::OkStatus();
  LH_RETURN_IF_ERROR(AddSample(reader, step, seeds, {}, part, batch));
  AddTensor(batch, "labels", part, LabelsOf(*folder_, seeds));
  return absl::OkStatus();
}

absl::Status GraphBatches::AddSample(Reader& reader, int64_t step, absl::Span<const int64_t> seeds,
                                     absl::Span<const NodePair> excluded, int part,
                                     ExampleBatch& batch) const {
  const absl::MutexLock lock(&reader.mutex);
  LH_ASSIGN_OR_RETURN(SampledBatch sample,
                      reader.sampler.Sample(step, seeds, excluded, reader.team.get()));
  if (reader.gathers) {
    const int64_t columns = reader.table->columns();
    HugePageVector<float> features(sample.nodes.size() * columns);
    LH_RETURN_IF_ERROR(reader.table->Gather(sample.nodes, features.data()));
    batch.tensors.push_back({PartName("features", part),
                             {static_cast<int64_t>(sample.nodes.size()), columns},
                             std::move(features)});
  }
  const auto add = [&](absl::string_view name, auto values) {
    AddTensor(batch, name, part, std::move(values));
  };
  add("nodes", std::move(sample.nodes));
  add("level_ends", std::move(sample.level_ends));
  add("indptr", std::move(sample.indptr));
  add("source_rows", std::move(sample.source_rows));
  add("seed_rows", std::vector<int64_t>(sample.seed_rows.begin(), sample.seed_rows.end()));
  return absl::OkStatus();
}

}  // namespace longhaul
