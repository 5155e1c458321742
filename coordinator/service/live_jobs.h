// The jobs that are live, by id.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/service/live_job.h"

namespace longhaul::coordinator {

// Thread-safe.
class LiveJobs {
 public:
  void Add(std::shared_ptr<LiveJob> job) {
    absl::MutexLock lock(&mutex_);
    const std::string id = job->id();
    jobs_[id] = std::move(job);
  }
  void Remove(absl::string_view id) {
    absl::MutexLock lock(&mutex_);
    const auto found = jobs_.find(id);
    if (found != jobs_.end()) jobs_.erase(found);
  }
  // Null: none.
  std::shared_ptr<LiveJob> Find(absl::string_view id) const {
    absl::MutexLock lock(&mutex_);
    const auto found = jobs_.find(id);
    return found == jobs_.end() ? nullptr : found->second;
  }
  std::vector<std::shared_ptr<LiveJob>> All() const {
    absl::MutexLock lock(&mutex_);
    std::vector<std::shared_ptr<LiveJob>> jobs;
    for (const auto& [id, job] : jobs_) jobs.push_back(job);
    return jobs;
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<LiveJob>, std::less<>> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::coordinator
