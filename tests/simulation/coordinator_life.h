// A process of the simulated coordinator, from its start to its crash: the product's parts, and
// what surrounds them. Only for the files of CoordinatorNode.
#pragma once

#include <map>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "tests/simulation/coordinator_node.h"
#include "tests/simulation/faulty_disk.h"

namespace longhaul::simulation {

// Runs tasks in virtual time, each a while later, one after another as a thread would.
class CoordinatorNode::Runner : public TaskRunner {
 public:
  // `applies`: its tasks are rounds.
  Runner(CoordinatorNode* node, absl::Duration at_most, bool applies = false)
      : node_(node), at_most_(at_most), applies_(applies) {}
  bool Submit(Task task) override;

 private:
  CoordinatorNode* const node_;
  const absl::Duration at_most_;
  const bool applies_;
  absl::Time free_at_ = absl::InfinitePast();
};

// The database, with a chance to die before and after each transaction.
class CoordinatorNode::Records : public MetaLog {
 public:
  explicit Records(CoordinatorNode* node) : node_(node) {}
  absl::Status Commit(absl::Span<const MetaRecord> records) override {
    node_->MayDie();
    if (node_->world_->disk_full) return absl::ResourceExhaustedError("no space left");
    std::vector<MetaRecord> kept = std::exchange(late_, {});
    for (const MetaRecord& record : records) {
      const bool place = std::holds_alternative<ParticipantRecord>(record);
      if (place && node_->world_->mutation == Mutation::kLostPlace) continue;
      const bool request = std::holds_alternative<CheckpointRequestRecord>(record);
      if (request && node_->world_->mutation == Mutation::kLostRequest) continue;
      const bool pause = std::holds_alternative<PauseRecord>(record);
      if (pause && node_->world_->mutation == Mutation::kLostPause) continue;
      const bool deletion = std::holds_alternative<DeletedJob>(record);
      if (deletion && node_->world_->mutation == Mutation::kLostDeletion) continue;
      const bool new_job = std::holds_alternative<NewJob>(record);
      if (node_->world_->mutation == Mutation::kLateRecords && !new_job) {
        late_.push_back(record);
      } else {
        kept.push_back(record);
      }
    }
    for (const MetaRecord& record : kept) {
      const auto* deleted = std::get_if<DeletedJob>(&record);
      if (deleted == nullptr) continue;
      node_->world_->Trace("coordinator", "deletes " + deleted->job_id);
      node_->world_->checker.Deletes(deleted->job_id, *node_->meta_, node_->world_->loop.now(),
                                     node_->world_->ended_job_keep);
    }
    const absl::Status written = kept.empty() ? absl::OkStatus() : node_->meta_->Commit(kept);
    for (const MetaRecord& record : kept) {
      const auto* evaluation = std::get_if<EvaluationRecord>(&record);
      if (evaluation == nullptr || !written.ok()) continue;
      const coordinator::LiveJob& job = *node_->performer().Find(evaluation->job_id);
      node_->world_->checker.Evaluated(
          *evaluation, coordinator::StepOfEvaluation(*job.resolved, evaluation->version, false));
    }
    node_->MayDie();
    return written;
  }

 private:
  CoordinatorNode* const node_;
  std::vector<MetaRecord> late_;
};

// Virtual time.
class CoordinatorNode::LoopClock : public Clock {
 public:
  explicit LoopClock(const sim::EventLoop* loop) : loop_(*loop) {}
  absl::Time Now() const override { return loop_.now(); }
  void SleepUntil(absl::Time) override { LH_CHECK(false, "nothing sleeps here"); }

 private:
  const sim::EventLoop& loop_;
};

struct CoordinatorNode::Life {
  explicit Life(CoordinatorNode* node)
      : log({.level = LogLevel::kError, .stream = &ignored}),
        fragment_metrics(registry),
        effect_metrics(registry),
        lying(node->disk_.get()),
        filling(node->disk_.get(), node->world_),
        unreadable(&filling, node->world_),
        clock(&node->world_->loop),
        owner(node, absl::ZeroDuration()),
        apply(node, absl::Milliseconds(80), true),
        opening(node, absl::Milliseconds(300)),
        background(node, absl::Milliseconds(300)),
        records(node),
        fragments(
            {.data_dir = kDataDir, .tile_threads = 1},
            {.fs = node->world_->mutation == Mutation::kLyingDisk ? static_cast<FileSystem*>(&lying)
                                                                  : &unreadable,
             .arbiter = node,
             .apply = &apply,
             .opening = &opening,
             .background = &background,
             .metrics = &fragment_metrics,
             .log = &log}) {
    absl::StatusOr<coordinator::RecoveredState> recovered =
        coordinator::RecoverState(*node->meta_, log);
    LH_CHECK(recovered.ok(), "the database is whole");
    performer = std::make_unique<coordinator::Performer>(
        coordinator::PerformerOptions{
            .core = {.lease = node->world_->lease,
                     .finish = absl::Seconds(60),
                     .memory = node->world_->memory},
            .ended_job_keep = node->world_->ended_job_keep,
            .on_fatal =
                [](const absl::Status& status) { LH_CHECK(false, "no fatal errors here"); }},
        coordinator::PerformerParts{.meta = node->meta_.get(),
                                    .records = &records,
                                    .fragments = &fragments,
                                    .publisher = node,
                                    .owner = &owner,
                                    .now = [node] { return node->world_->loop.now(); },
                                    .job_id = [node] { return node->submitting_; },
                                    .metrics = &effect_metrics,
                                    .log = &log},
        *std::move(recovered));
  }

  std::ostringstream ignored;
  Logger log;
  MetricRegistry registry;
  coordinator::FragmentMetrics fragment_metrics;
  coordinator::EffectMetrics effect_metrics;
  LyingFileSystem lying;
  FullFileSystem filling;
  UnreadableFileSystem unreadable;
  LoopClock clock;
  std::unique_ptr<Uploads> uploads;
  Runner owner, apply, opening, background;
  Records records;
  coordinator::Fragments fragments;
  std::unique_ptr<coordinator::Performer> performer;
  // Readers that take long. Each holds a store.
  std::map<int64_t, PullSource> slow_readers;
};

}  // namespace longhaul::simulation
