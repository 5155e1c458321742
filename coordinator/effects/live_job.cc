#include "coordinator/service/live_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/refusal.h"

namespace longhaul::coordinator {
namespace {

std::vector<int64_t> BlocksOf(const ResolvedJob& resolved) {
  std::vector<int64_t> blocks;
  for (const FragmentLayout& fragment : resolved.fragments) blocks.push_back(fragment.blocks());
  return blocks;
}

}  // namespace

absl::StatusOr<std::shared_ptr<LiveJob>> LiveJob::Create(JobRecord record, ResolvedJob resolved) {
  std::shared_ptr<LiveJob> job(new LiveJob(std::move(record), std::move(resolved)));
  const v1::SyncSpec& sync = job->resolved_.spec.sync();
  LH_ASSIGN_OR_RETURN(job->up_, MakeCodec(CodecOptionsOf(sync.up())));
  LH_ASSIGN_OR_RETURN(job->down_, MakeCodec(CodecOptionsOf(sync.down())));
  LH_ASSIGN_OR_RETURN(job->exact_, MakeCodec({.kind = CodecKind::kFp32}));
  return job;
}

LiveJob::LiveJob(JobRecord record, ResolvedJob resolved)
    : record(std::move(record)),
      progress(resolved.fragments.size()),
      id_(this->record.id),
      resolved_(std::move(resolved)),
      contributions_(BlocksOf(resolved_)) {}

JobStore* LiveJob::store() const {
  absl::MutexLock lock(&mutex_);
  return store_.get();
}

void LiveJob::set_store(std::unique_ptr<JobStore> store) {
  absl::MutexLock lock(&mutex_);
  store_ = std::move(store);
}

absl::Status LiveJob::CheckPlace(const std::string& pool, const std::string& incarnation) const {
  absl::MutexLock lock(&mutex_);
  const auto found = places_.find(pool);
  if (found != places_.end() && found->second == incarnation) return absl::OkStatus();
  return ToStatus({.status = absl::AbortedError(
                       absl::StrCat("pool ", pool, " has no place in job ", id_, " any more")),
                   .reason = "POOL_LOST"});
}

void LiveJob::SetPlace(const ParticipantRecord& place) {
  absl::MutexLock lock(&mutex_);
  if (!place.left) {
    places_[place.pool] = place.incarnation;
  } else if (const auto found = places_.find(place.pool);
             found != places_.end() && found->second == place.incarnation) {
    places_.erase(found);
  }
}

JobOptions JobOptionsOf(const ResolvedJob& resolved) {
  const v1::JobSpec& spec = resolved.spec;
  return {.pools_min = spec.pools().min(),
          .pools_max = spec.pools().max(),
          .pool_names = {spec.pools().names().begin(), spec.pools().names().end()},
          .schedule = resolved.schedule,
          .steps = spec.train().steps(),
          .final_round = spec.sync().final_round(),
          .checkpoint_every_cycles = spec.checkpoint().every_cycles(),
          .evaluation_every_cycles = spec.evaluation().every_cycles()};
}

JobStoreOptions JobStoreOptionsOf(const ResolvedJob& resolved) {
  const v1::SyncSpec& sync = resolved.spec.sync();
  JobStoreOptions options{.down = CodecOptionsOf(sync.down()),
                          .outer_lr = sync.outer().lr(),
                          .outer_momentum = sync.outer().momentum(),
                          .checkpoints_keep = resolved.spec.checkpoint().keep()};
  int64_t elements = 0;
  for (const FragmentLayout& fragment : resolved.fragments) {
    options.fragment_elements.push_back(fragment.elements);
    elements += fragment.elements;
  }
  // A segment holds about two rounds of a small model; large ones get the store's default.
  options.log_segment_bytes = std::clamp<int64_t>(elements, 1 << 20, options.log_segment_bytes);
  return options;
}

std::vector<v1::CheckpointTensor> TensorsOf(const ResolvedJob& resolved) {
  std::vector<v1::CheckpointTensor> tensors;
  for (size_t f = 0; f < resolved.fragments.size(); ++f) {
    for (const UnitSpan& span : resolved.fragments[f].units) {
      for (const TensorLayout& layout : resolved.model.units[span.unit].tensors) {
        v1::CheckpointTensor& tensor = tensors.emplace_back();
        tensor.set_name(layout.name);
        tensor.mutable_shape()->Assign(layout.shape.begin(), layout.shape.end());
        tensor.set_fragment(static_cast<int32_t>(f));
        tensor.set_offset(span.offset + layout.offset);
      }
    }
  }
  return tensors;
}

}  // namespace longhaul::coordinator
