#include "worker/family/graph/graph_batches.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/share.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// "dropout". Sampling uses other streams of the same seed.
constexpr uint64_t kDropoutStream = 0x64726f706f7574;

}  // namespace

std::string PartName(absl::string_view tensor, int part) { return absl::StrCat(tensor, "/", part); }

GraphBatches::Reader::Reader(const Options& options, const GraphFolder& folder,
                             std::shared_ptr<HostRows> rows, NeighborSampler sampler)
    : team(std::make_unique<ThreadTeam>(options.threads)),
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
  const std::vector<int64_t> all(options.fanout.size(), -1);
  LH_ASSIGN_OR_RETURN(NeighborSampler held_out,
                      NeighborSampler::Create(folder->edges(), {.fanout = all}));
  std::unique_ptr<GraphBatches> batches(new GraphBatches(options, folder, plan));
  batches->training_ = std::make_unique<Reader>(options, *folder, rows, std::move(training));
  batches->held_out_ = std::make_unique<Reader>(options, *folder, rows, std::move(held_out));
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
  const auto key =
      static_cast<int64_t>(Philox64(options_.seed, kDropoutStream, static_cast<uint64_t>(step)));
  batch.tensors.push_back({"dropout_key", {1}, std::vector<int64_t>{key}});
  const absl::Span<const int64_t> seeds =
      absl::MakeConstSpan(pool).subspan(mine.first, batch.examples);
  for (int part = 0; part < options_.accumulation; ++part) {
    const Share of_part = ShareOf(batch.examples, part, options_.accumulation);
    LH_RETURN_IF_ERROR(AddPart(*training_, step, seeds.subspan(of_part.first, of_part.count), part,
                               options_.gathers, batch));
  }
  LH_RETURN_IF_ERROR(folder_->Check());
  return batch;
}

absl::StatusOr<ExampleBatch> GraphBatches::MakeHeldOut(int64_t index, int64_t count) const {
  const absl::Span<const int64_t> valid = folder_->valid();
  const Share of_batch = ShareOf(static_cast<int64_t>(valid.size()), index, count);
  const absl::Span<const int64_t> pool = valid.subspan(of_batch.first, of_batch.count);
  const Share mine = ShareOf(static_cast<int64_t>(pool.size()), options_.rank, options_.ranks);
  ExampleBatch batch{.examples = mine.count, .pool_weight = Labelled(pool)};
  LH_RETURN_IF_ERROR(
      AddPart(*held_out_, 0, pool.subspan(mine.first, batch.examples), 0, /*gathers=*/true, batch));
  LH_RETURN_IF_ERROR(folder_->Check());
  return batch;
}

absl::StatusOr<int64_t> GraphBatches::HeldOutWeight(int64_t) const {
  return Labelled(folder_->valid());
}

absl::Status GraphBatches::AddPart(Reader& reader, int64_t step, absl::Span<const int64_t> seeds,
                                   int part, bool gathers, ExampleBatch& batch) const {
  if (seeds.empty()) return absl::OkStatus();
  const absl::MutexLock lock(&reader.mutex);
  LH_ASSIGN_OR_RETURN(SampledBatch sample,
                      reader.sampler.Sample(step, seeds, {}, reader.team.get()));
  if (gathers) {
    const int64_t columns = reader.table->columns();
    std::vector<float> features(sample.nodes.size() * columns);
    LH_RETURN_IF_ERROR(reader.table->Gather(sample.nodes, features.data()));
    batch.tensors.push_back({PartName("features", part),
                             {static_cast<int64_t>(sample.nodes.size()), columns},
                             std::move(features)});
  }
  std::vector<int64_t> labels;
  for (const int64_t seed : seeds) labels.push_back(folder_->labels()[seed]);
  const auto add = [&](absl::string_view name, auto values) {
    batch.tensors.push_back(
        {PartName(name, part), {static_cast<int64_t>(values.size())}, std::move(values)});
  };
  add("nodes", std::move(sample.nodes));
  add("level_ends", std::move(sample.level_ends));
  add("indptr", std::move(sample.indptr));
  add("source_rows", std::move(sample.source_rows));
  add("seed_rows", std::vector<int64_t>(sample.seed_rows.begin(), sample.seed_rows.end()));
  add("labels", std::move(labels));
  return absl::OkStatus();
}

}  // namespace longhaul
