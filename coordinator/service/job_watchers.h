// The open WatchJob streams. Changes are gathered: a watcher gets the newest state of its job at
// most once a tick, and at most one such message waits for it. Events are gathered too, and it gets
// all that are kept: of a watcher that does not read, a message never has more than the newest
// JobEvents::kEventsMax.
//
// A cursor is the time of a change in microseconds, so that it means the same after a restart.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/service/outgoing_stream.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

using JobWatchStream = OutgoingStream<v1::WatchJobResponse>;

struct JobWatcher {
  std::shared_ptr<JobWatchStream> stream;
  // The last event that it knows or was sent. Empty: it wants no events.
  std::optional<int64_t> events_after;
};

// Owner thread.
class JobWatchers {
 public:
  // `watchers_max`: the most streams at one time.
  explicit JobWatchers(size_t watchers_max = 256) : watchers_max_(watchers_max) {}

  // The events of a job after a sequence number, oldest first.
  using EventSource =
      std::function<std::vector<v1::JobEvent>(const std::string& job_id, int64_t sequence)>;

  // Adds a stream. It ends with OK when it has sent the state in which the job ended. `job`: the
  // state now. `cursor`: what the watcher has seen already, or 0. If `cursor` is later than now,
  // the stream ends with OUT_OF_RANGE. If there are watchers_max already and the job has not ended,
  // it ends with RESOURCE_EXHAUSTED and RetryInfo.
  void Add(JobWatcher watcher, const v1::Job& job, int64_t cursor, absl::Time now,
           const EventSource& events);

  // Notes that the job has changed. Cheap.
  void Changed(const std::string& job_id, absl::Time now);

  // Sends what changed. `report` is called once for each watched job that changed. A result without
  // an id means that the job is gone; then its streams end with NOT_FOUND.
  void Flush(const std::function<v1::Job(const std::string& job_id)>& report,
             const EventSource& events);
  // Ends all streams, also those that are added later.
  void EndAll(const absl::Status& status);

 private:
  struct Watched {
    std::string name;
    int64_t changed = 0;  // Cursor of the newest change; 0: none since the coordinator started.
    bool pending = false;
    std::vector<JobWatcher> watchers;
  };
  // Streams that have not ended.
  size_t Count() const;
  static void SendTo(JobWatcher& watcher, const v1::Job& job, int64_t cursor,
                     const EventSource& events);

  const size_t watchers_max_;
  std::map<std::string, Watched> watched_;
  absl::Status closed_;  // Not OK after EndAll.
};

}  // namespace longhaul::coordinator
