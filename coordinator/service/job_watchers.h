// The open WatchJob streams. Changes are gathered: a watcher gets the newest state of its job at
// most once a tick, and never more than one that it has not read.
//
// A cursor is the time of a change in microseconds, so that it means the same after a restart.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/service/outgoing_stream.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

using JobWatchStream = OutgoingStream<v1::WatchJobResponse>;

// Owner thread.
class JobWatchers {
 public:
  // The streams of a job are ended with OK after the state in which it ended was sent. `job`: as it
  // is now. `cursor`: what the watcher saw already, or 0. OUT_OF_RANGE, through the stream: later
  // than now.
  void Add(std::shared_ptr<JobWatchStream> stream, const v1::Job& job, int64_t cursor,
           absl::Time now);

  // Something about the job is different. Cheap.
  void Changed(const std::string& job_id, absl::Time now);

  // Sends what changed. `report` is called once for each watched job that changed.
  void Flush(const std::function<v1::Job(const std::string& job_id)>& report);
  // Also those that are added later.
  void EndAll(const absl::Status& status);

 private:
  struct Watched {
    int64_t changed = 0;  // Cursor of the newest change; 0: none since the coordinator started.
    bool pending = false;
    std::vector<std::shared_ptr<JobWatchStream>> streams;
  };
  static void SendTo(JobWatchStream& stream, const v1::Job& job, int64_t cursor);

  std::map<std::string, Watched> watched_;
  absl::Status closed_;  // Not OK after EndAll.
};

}  // namespace longhaul::coordinator
