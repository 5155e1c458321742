#include "tests/benchmark/coordinator/local_coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "common/wire/proto_values.h"
#include "coordinator/effects/owner_arbiter.h"
#include "coordinator/effects/recovery.h"
#include "coordinator/store/data_folder.h"
#include "tests/benchmark/coordinator/figures.h"
#include "tests/benchmark/coordinator/served.h"
#include "tests/benchmark/harness/row.h"

namespace longhaul::benchmark {
namespace {

constexpr char kIncarnation[] = "0123456789abcdef";
constexpr int64_t kTinyElements = 256;

std::unique_ptr<MetaStore> OpenMeta(FileSystem& fs, const std::string& data_dir) {
  OrEnd(CreateDirs(fs, JobsFolder(data_dir)), "the data folder");
  return OrEnd(MetaStore::Open(DatabasePath(data_dir)), "the database");
}

}  // namespace

LocalCoordinator::LocalCoordinator(const std::string& data_dir)
    : log_({.level = LogLevel::kError, .stream = &ignored_}),
      fs_(MakePosixFileSystem()),
      meta_(OpenMeta(*fs_, data_dir)),
      fragments_({.data_dir = data_dir, .tile_threads = 1}, {.fs = fs_.get(),
                                                             .arbiter = this,
                                                             .apply = &apply_,
                                                             .opening = &background_,
                                                             .background = &background_,
                                                             .metrics = &fragment_metrics_,
                                                             .log = &log_}) {
  coordinator::PerformerOptions options;
  options.core.lease = absl::Hours(24 * 365);
  options.on_fatal = [](const absl::Status& status) { OrEnd(status, "the coordinator halted"); };
  performer_ = std::make_unique<coordinator::Performer>(
      std::move(options),
      coordinator::PerformerParts{.meta = meta_.get(),
                                  .records = meta_.get(),
                                  .fragments = &fragments_,
                                  .publisher = &publisher_,
                                  .owner = &owner_,
                                  .now = [this] { return now_; },
                                  .metrics = &effect_metrics_,
                                  .log = &log_},
      OrEnd(coordinator::RecoverState(*meta_, log_), "recovery"));
  publisher_.Connect(performer_.get());
  performer_->Start();
}

void LocalCoordinator::RunAll() {
  while (owner_.RunOne() || apply_.RunOne() || background_.RunOne()) {
  }
}

double LocalCoordinator::Step(const coordinator::Event& event) {
  absl::Status refused;
  const double seconds = Seconds([&] {
    performer_->Step(event, [&](const std::optional<coordinator::Answer>& answer) {
      if (!answer.has_value()) return;
      if (const auto* refusal = std::get_if<coordinator::Refuse>(&*answer))
        refused = refusal->status;
    });
  });
  OrEnd(refused, "a step");
  return seconds;
}

double LocalCoordinator::Tick() {
  now_ += absl::Milliseconds(200);
  return Seconds([&] { performer_->PassTime(); });
}

void LocalCoordinator::Push(LiveJob& job, RoundKind kind) {
  v1::PushHeader header;
  header.set_job_id(job.id);
  header.set_pool(job.pool);
  header.set_incarnation(kIncarnation);
  header.set_version(job.version);
  header.set_kind(ToProto(kind));
  header.set_codec(v1::FP32);
  header.set_weight(1);
  const std::vector<float> values(kTinyElements, 0.125f);
  CodedChunk chunk;
  chunk.segments.push_back({0, static_cast<int32_t>(kTinyElements), 0});
  chunk.payload_bytes = kTinyElements * static_cast<int64_t>(sizeof(float));
  chunk.pieces = {{reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)}};
  PushHandler handler = fragments_.MakePushHandler();
  OrEnd(handler.on_header(header).status(), "a push's header");
  OrEnd(handler.on_chunk(header, std::move(chunk)), "a push's chunk");
  OrEnd(handler.on_complete(header).status(), "a push");
  handler.on_end(absl::OkStatus(), {});
}

double LocalCoordinator::Round(LiveJob& job) {
  step_seconds_ = 0;
  ++job.version;
  Push(job, RoundKind::kOuter);
  while (apply_.RunOne()) {
  }
  // What the round ended with: the step that publishes the commit.
  step_seconds_ += Seconds([this] {
    while (owner_.RunOne()) {
    }
  });
  RunAll();
  return step_seconds_;
}

LocalCoordinator::LiveJob LocalCoordinator::Begin(const std::string& name, const std::string& pool,
                                                  int64_t steps) {
  ResolvedJob resolved = OrEnd(
      ResolveJobSpec(SpecOf(name, 1, kTinyElements, steps, v1::FP32, {pool})), "the job's spec");
  const JobOptions options = coordinator::JobOptionsOf(resolved);
  Step(coordinator::JoinPool{.pool = pool,
                             .incarnation = kIncarnation,
                             .capabilities = {options.needs.begin(), options.needs.end()}});
  LiveJob job{.id = OrEnd(performer_->Submit(std::move(resolved), ""), "submit").job, .pool = pool};
  Step(coordinator::RankReady{job.id, pool, kIncarnation});
  RunAll();
  Push(job, RoundKind::kSeed);
  RunAll();
  return job;
}

void LocalCoordinator::RunToEnd(const std::string& name, const std::string& pool) {
  LiveJob job = Begin(name, pool, 2);
  Round(job);
  Step(coordinator::Heartbeat{.pool = pool,
                              .incarnation = kIncarnation,
                              .job = job.id,
                              .inner_step = 2,
                              .finished = true,
                              .evaluations = {{.step = 2, .loss = 2.5, .final = true}}});
  RunAll();
  now_ += absl::Seconds(2);
  Tick();
  RunAll();
}

absl::Status LocalCoordinator::Judge(const coordinator::ContributionId& contribution) const {
  return performer_->Judge(contribution);
}
absl::Status LocalCoordinator::CheckReader(const std::string& job, const std::string& pool,
                                           const std::string& incarnation) const {
  return performer_->CheckPlace(job, pool, incarnation);
}
absl::Status LocalCoordinator::Complete(const coordinator::ContributionId& contribution) {
  step_seconds_ += Step(coordinator::ContributionComplete{contribution});
  return absl::OkStatus();
}
void LocalCoordinator::ReportStoreFailure(const std::string& job, const absl::Status& status) {
  OrEnd(status, absl::StrCat("the store of job ", job));
}

}  // namespace longhaul::benchmark
