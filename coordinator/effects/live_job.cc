#include "coordinator/effects/live_job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status_macros.h"
#include "common/checkpoint/initial_folder.h"
#include "common/config/capabilities.h"
#include "common/config/checkpoint_name.h"
#include "common/config/data_sources.h"
#include "common/config/model_kinds.h"
#include "common/rpc/codec_proto.h"
#include "coordinator/sync/round_plan.h"

namespace longhaul::coordinator {
namespace {

JobStoreOptions JobStoreOptionsOf(const ResolvedJob& resolved) {
  const v1::SyncSpec& sync = resolved.spec.sync();
  JobStoreOptions options{.down = CodecOptionsOf(sync.down()),
                          .outer_lr = sync.outer().lr(),
                          .outer_momentum = sync.outer().momentum(),
                          .checkpoints_keep = resolved.spec.checkpoint().keep(),
                          .noise_seed = resolved.spec.train().seed()};
  int64_t elements = 0;
  for (const FragmentLayout& fragment : resolved.fragments) {
    options.fragment_elements.push_back(fragment.elements);
    elements += fragment.elements;
  }
  options.log_file_bytes = LogFileBytesFor(elements);
  return options;
}

std::optional<InitialCheckpoint> InitialOf(const ResolvedJob& resolved) {
  const v1::InitSpec& init = resolved.spec.init();
  if (init.source_case() == v1::InitSpec::SOURCE_NOT_SET) return std::nullopt;
  InitialCheckpoint initial{
      .folder = init.folder(), .upload = init.upload(), .tensors = TensorsOf(resolved)};
  if (const auto name = ParseCheckpointName(init.checkpoint()); name.has_value()) {
    initial.job = name->job;
    initial.step = name->step.value_or(0);
  }
  if (HasKeptTokenizer(resolved.spec)) initial.tokenizer = resolved.spec.data().model_tokenizer();
  return initial;
}

}  // namespace

v1::WireBytes LiveJob::wire_bytes() const {
  const WireBytes up = fragments->bytes_up().Value(), down = fragments->bytes_down().Value();
  v1::WireBytes bytes;
  bytes.set_up_payload(up.payload);
  bytes.set_up_total(up.total);
  bytes.set_down_payload(down.payload);
  bytes.set_down_total(down.total);
  return bytes;
}

absl::StatusOr<std::shared_ptr<LiveJob>> MakeLiveJob(JobRecord record, ResolvedJob resolved) {
  const v1::SyncSpec& sync = resolved.spec.sync();
  FragmentsOfJob fragments{.up = CodecOptionsOf(sync.up()),
                           .manifest = {.id = record.id,
                                        .name = record.name,
                                        .idempotency_token = record.idempotency_token,
                                        .created = record.created,
                                        .spec = record.spec,
                                        .options = JobStoreOptionsOf(resolved),
                                        .owner = record.owner},
                           .initial = InitialOf(resolved),
                           .weight_max = sync.mode() == v1::QUORUM ? sync.h() : 1};
  auto job = std::make_shared<LiveJob>(std::move(record));
  job->progress = JobProgress(resolved.fragments.size());
  job->history = JobHistory(resolved.schedule);
  LH_ASSIGN_OR_RETURN(job->fragments, JobFragments::Create(std::move(fragments)));
  job->resolved = std::move(resolved);
  return job;
}

void SetBeginning(const v1::InitSpec& init, JobOptions& options) {
  options.from_checkpoint = init.source_case() != v1::InitSpec::SOURCE_NOT_SET;
  options.from_upload = init.upload();
  const auto name = ParseCheckpointName(init.checkpoint());
  if (!name.has_value()) return;
  options.from_job = name->job;
  options.from_step = name->step.value_or(0);
}

namespace {

RoundPolicy PolicyOf(const v1::SyncSpec& sync) {
  if (sync.mode() != v1::QUORUM) return {};
  return {.quorum = sync.quorum().pools(), .grace = absl::Seconds(sync.quorum().grace_seconds())};
}

}  // namespace

GuardOptions GuardOf(const v1::JobSpec& spec) {
  const int32_t vocab = spec.model().transformer().vocab();
  return {.on_divergence = static_cast<DivergenceAction>(spec.guard().on_divergence()),
          .after = absl::Seconds(spec.guard().after_seconds()),
          .guess = vocab > 0 ? std::log(vocab) : 0};
}

namespace {

OuterGuardOptions OuterGuardOf(const v1::JobSpec& spec) {
  const v1::GuardSpec& guard = spec.guard();
  return {.on = guard.outer() == v1::LEAVE_OUT,
          .norm = guard.outer_norm(),
          .cosine = guard.outer_cosine(),
          .rounds = guard.outer_rounds()};
}

}  // namespace

JobOptions JobOptionsOf(const ResolvedJob& resolved) {
  const v1::JobSpec& spec = resolved.spec;
  JobOptions options{.name = spec.name(),
                     .pools_min = spec.pools().min(),
                     .pools_max = spec.pools().max(),
                     .pool_names = {spec.pools().names().begin(), spec.pools().names().end()},
                     .cuda = spec.train().device() == v1::CUDA,
                     .needs = NeedsOf(spec),
                     .schedule = resolved.schedule,
                     .steps = spec.train().steps(),
                     .final_round = spec.sync().final_round(),
                     .rounds = PolicyOf(spec.sync()),
                     .checkpoint_every_cycles = spec.checkpoint().every_cycles(),
                     .evaluation_every_cycles = spec.evaluation().every_cycles(),
                     .every_pool_evaluates = EveryPoolEvaluates(spec.model()),
                     .guard = GuardOf(spec),
                     .outer_guard = OuterGuardOf(spec),
                     .memory = MemoryOf(resolved)};
  SetBeginning(spec.init(), options);
  return options;
}

int64_t StepOfEvaluation(const ResolvedJob& resolved, int64_t version, bool final) {
  const RoundPlan plan(resolved.schedule, resolved.spec.train().steps(),
                       resolved.spec.sync().final_round());
  return plan.WholeStep(final ? plan.NewestVersion() : version);
}

int64_t MemoryOf(const ResolvedJob& resolved) { return JobStoreBytes(JobStoreOptionsOf(resolved)); }

}  // namespace longhaul::coordinator
