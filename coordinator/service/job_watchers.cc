#include "coordinator/service/job_watchers.h"

#include <algorithm>
#include <utility>

#include "coordinator/effects/performer.h"

namespace longhaul::coordinator {
namespace {

bool Ended(const v1::Job& job) { return IsEnded(static_cast<JobState>(job.state())); }

}  // namespace

void JobWatchers::SendTo(JobWatchStream& stream, const v1::Job& job, int64_t cursor) {
  v1::WatchJobResponse response;
  response.set_cursor(cursor);
  *response.mutable_job() = job;
  stream.SendNewest(std::move(response));
  if (Ended(job)) stream.End(absl::OkStatus());
}

void JobWatchers::Add(std::shared_ptr<JobWatchStream> stream, const v1::Job& job, int64_t cursor,
                      absl::Time now) {
  if (!closed_.ok()) return stream->End(closed_);
  const auto found = watched_.find(job.id());
  const int64_t changed = found == watched_.end() ? 0 : found->second.changed;
  const int64_t newest = std::max(changed, absl::ToUnixMicros(now));
  if (cursor < 0 || cursor > newest) {
    stream->End(absl::OutOfRangeError("the cursor is newer than anything that exists"));
    return;
  }
  const bool seen = cursor > 0 && changed > 0 && cursor >= changed;
  if (!seen || Ended(job)) SendTo(*stream, job, changed > 0 ? changed : newest);
  if (!Ended(job)) watched_[job.id()].streams.push_back(std::move(stream));
}

void JobWatchers::Changed(const std::string& job_id, absl::Time now) {
  const auto found = watched_.find(job_id);
  if (found == watched_.end()) return;
  found->second.changed = std::max(absl::ToUnixMicros(now), found->second.changed + 1);
  found->second.pending = true;
}

void JobWatchers::Flush(const std::function<v1::Job(const std::string& job_id)>& report) {
  for (auto it = watched_.begin(); it != watched_.end();) {
    Watched& watched = it->second;
    std::erase_if(watched.streams, [](const auto& stream) { return stream->ended(); });
    if (watched.streams.empty()) {
      it = watched_.erase(it);
      continue;
    }
    if (std::exchange(watched.pending, false)) {
      const v1::Job job = report(it->first);
      for (const auto& stream : watched.streams) SendTo(*stream, job, watched.changed);
    }
    ++it;
  }
}

void JobWatchers::EndAll(const absl::Status& status) {
  closed_ = status;
  for (auto& [id, watched] : watched_) {
    for (const auto& stream : watched.streams) stream->End(status);
  }
  watched_.clear();
}

}  // namespace longhaul::coordinator
