#include "coordinator/fragments/job_fragments.h"

#include <utility>

#include "common/base/status_macros.h"

namespace longhaul::coordinator {
absl::StatusOr<std::shared_ptr<JobFragments>> JobFragments::Create(FragmentsOfJob job) {
  std::shared_ptr<JobFragments> fragments(new JobFragments(std::move(job)));
  LH_ASSIGN_OR_RETURN(fragments->up_, MakeCodec(fragments->job_.up));
  LH_ASSIGN_OR_RETURN(fragments->down_, MakeCodec(fragments->job_.manifest.options.down));
  LH_ASSIGN_OR_RETURN(fragments->exact_, MakeCodec({.kind = CodecKind::kFp32}));
  return fragments;
}

JobFragments::JobFragments(FragmentsOfJob job) : job_(std::move(job)) {}

std::shared_ptr<SharedStore> JobFragments::store() const {
  absl::MutexLock lock(&mutex_);
  return store_;
}

std::shared_ptr<SharedStore> JobFragments::set_store(std::shared_ptr<SharedStore> store) {
  absl::MutexLock lock(&mutex_);
  return std::exchange(store_, std::move(store));
}

bool JobFragments::ShowUnlessHidden(absl::FunctionRef<void()> show) {
  absl::MutexLock lock(&show_mutex_);
  if (!hidden_) show();
  return !hidden_;
}

void JobFragments::Hide() {
  absl::MutexLock lock(&show_mutex_);
  hidden_ = true;
}

std::string JobFragments::full() const {
  absl::MutexLock lock(&mutex_);
  for (const Storing what : {Storing::kAnswer, Storing::kOpening, Storing::kPart, Storing::kRound,
                             Storing::kLastCheckpoint}) {
    const Full& full = full_[static_cast<size_t>(what)];
    // Tries to open the store or to write a checkpoint may be a minute apart.
    const bool holds = what == Storing::kOpening || what == Storing::kLastCheckpoint ||
                       job_.now() - full.at < kFullFor;
    if (!full.why.empty() && holds) return full.why;
  }
  return "";
}

void JobFragments::set_full(Storing what, absl::string_view why) {
  absl::MutexLock lock(&mutex_);
  Full& full = full_[static_cast<size_t>(what)];
  if (full.why != why) full.why = std::string(why);
  if (!why.empty()) full.at = job_.now();
}

}  // namespace longhaul::coordinator
