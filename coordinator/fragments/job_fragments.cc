#include "coordinator/fragments/job_fragments.h"

#include <utility>
#include <vector>

#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::coordinator {
namespace {

std::vector<int64_t> BlockCounts(const JobStoreOptions& options) {
  std::vector<int64_t> blocks;
  for (const int64_t elements : options.fragment_elements)
    blocks.push_back(CeilDiv(elements, kBlockElements));
  return blocks;
}

}  // namespace

absl::StatusOr<std::shared_ptr<JobFragments>> JobFragments::Create(FragmentsOfJob job) {
  std::shared_ptr<JobFragments> fragments(new JobFragments(std::move(job)));
  LH_ASSIGN_OR_RETURN(fragments->up_, MakeCodec(fragments->job_.up));
  LH_ASSIGN_OR_RETURN(fragments->down_, MakeCodec(fragments->job_.manifest.options.down));
  LH_ASSIGN_OR_RETURN(fragments->exact_, MakeCodec({.kind = CodecKind::kFp32}));
  return fragments;
}

JobFragments::JobFragments(FragmentsOfJob job)
    : job_(std::move(job)), contributions_(BlockCounts(job_.manifest.options)) {}

std::shared_ptr<JobFragments> JobFragments::WithoutStore() const {
  std::shared_ptr<JobFragments> job = *Create(job_);  // This one has the codecs.
  job->bytes_up_.Add(bytes_up_.Value());
  job->bytes_down_.Add(bytes_down_.Value());
  return job;
}

JobStore* JobFragments::store() const {
  absl::MutexLock lock(&mutex_);
  return store_.get();
}

void JobFragments::set_store(std::unique_ptr<JobStore> store) {
  absl::MutexLock lock(&mutex_);
  store_ = std::move(store);
}

bool JobFragments::ShowUnlessClosed(absl::FunctionRef<void()> show) {
  absl::MutexLock lock(&show_mutex_);
  if (!closed_) show();
  return !closed_;
}

void JobFragments::Close() {
  absl::MutexLock lock(&show_mutex_);
  closed_ = true;
}

std::string JobFragments::full() const {
  absl::MutexLock lock(&mutex_);
  for (const Storing what : {Storing::kAnswer, Storing::kOpening, Storing::kPart, Storing::kRound,
                             Storing::kFinalCheckpoint}) {
    const Full& full = full_[static_cast<size_t>(what)];
    // Tries to open the store or to write a checkpoint may be a minute apart.
    const bool holds = what == Storing::kOpening || what == Storing::kFinalCheckpoint ||
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
