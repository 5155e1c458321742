#include "coordinator/service/job_watchers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"
#include "coordinator/effects/control_plane.h"
#include "coordinator/effects/job_events.h"

namespace longhaul::coordinator {
namespace {

bool Ended(const v1::Job& job) { return IsEnded(static_cast<JobState>(job.state())); }

absl::Status WasDeleted(const std::string& name) {
  return WithErrorInfo(absl::NotFoundError(absl::StrCat("job ", name, " was deleted")),
                       {"JOB_UNKNOWN", {}});
}

// The newer message replaces one that was not sent yet, and takes over its events: the newest, as
// many as are kept of a job.
void TakeOver(v1::WatchJobResponse& older, v1::WatchJobResponse& newer) {
  auto& events = *older.mutable_events();
  events.MergeFrom(newer.events());
  const int surplus = events.size() - static_cast<int>(JobEvents::kEventsMax);
  if (surplus > 0) events.DeleteSubrange(0, surplus);
  newer.mutable_events()->Swap(&events);
}

}  // namespace

void JobWatchers::SendTo(JobWatcher& watcher, const v1::Job& job, int64_t cursor,
                         const EventSource& events) {
  v1::WatchJobResponse response;
  response.set_cursor(cursor);
  *response.mutable_job() = job;
  if (watcher.events_after.has_value()) {
    for (v1::JobEvent& event : events(job.id(), *watcher.events_after)) {
      watcher.events_after = event.sequence();
      *response.add_events() = std::move(event);
    }
  }
  watcher.stream->SendNewest(std::move(response), TakeOver);
  if (Ended(job)) watcher.stream->End(absl::OkStatus());
}

size_t JobWatchers::Count() const {
  size_t count = 0;
  for (const auto& [id, watched] : watched_) {
    count += std::count_if(watched.watchers.begin(), watched.watchers.end(),
                           [](const JobWatcher& watcher) { return !watcher.stream->ended(); });
  }
  return count;
}

void JobWatchers::Add(JobWatcher watcher, const v1::Job& job, int64_t cursor, absl::Time now,
                      const EventSource& events) {
  if (!closed_.ok()) return watcher.stream->End(closed_);
  if (!Ended(job) && Count() >= watchers_max_) {
    return watcher.stream->End(
        WithRetryDelay(absl::ResourceExhaustedError(absl::StrCat(
                           "too many clients are watching jobs (limit ", watchers_max_, ")")),
                       absl::Seconds(5)));
  }
  const auto found = watched_.find(job.id());
  const int64_t changed = found == watched_.end() ? 0 : found->second.changed;
  const int64_t newest = std::max(changed, absl::ToUnixMicros(now));
  if (cursor < 0 || cursor > newest) {
    watcher.stream->End(absl::OutOfRangeError("the cursor is newer than the newest update"));
    return;
  }
  const bool seen = cursor > 0 && changed > 0 && cursor >= changed;
  if (!seen || Ended(job)) SendTo(watcher, job, changed > 0 ? changed : newest, events);
  if (Ended(job)) return;
  Watched& watched = watched_[job.id()];
  watched.name = job.spec().name();
  watched.watchers.push_back(std::move(watcher));
}

void JobWatchers::Changed(const std::string& job_id, absl::Time now) {
  const auto found = watched_.find(job_id);
  if (found == watched_.end()) return;
  found->second.changed = std::max(absl::ToUnixMicros(now), found->second.changed + 1);
  found->second.pending = true;
}

void JobWatchers::Flush(const std::function<v1::Job(const std::string& job_id)>& report,
                        const EventSource& events) {
  for (auto it = watched_.begin(); it != watched_.end();) {
    Watched& watched = it->second;
    std::erase_if(watched.watchers,
                  [](const JobWatcher& watcher) { return watcher.stream->ended(); });
    if (watched.watchers.empty()) {
      it = watched_.erase(it);
      continue;
    }
    if (std::exchange(watched.pending, false)) {
      const v1::Job job = report(it->first);
      if (job.id().empty()) {
        for (JobWatcher& watcher : watched.watchers) watcher.stream->End(WasDeleted(watched.name));
        it = watched_.erase(it);
        continue;
      }
      for (JobWatcher& watcher : watched.watchers) SendTo(watcher, job, watched.changed, events);
    }
    ++it;
  }
}

void JobWatchers::EndAll(const absl::Status& status) {
  closed_ = status;
  for (auto& [id, watched] : watched_) {
    for (const JobWatcher& watcher : watched.watchers) watcher.stream->End(status);
  }
  watched_.clear();
}

}  // namespace longhaul::coordinator
