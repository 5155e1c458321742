// The open WatchPlan streams: one for each rank of each pool of each job.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/service/outgoing_stream.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul::coordinator {

using PlanStream = OutgoingStream<v1::PlanEvent>;

// Events that wait for one rank. A job has at most a few commits a second, so a rank that is so far
// behind starts from a new Plan.
inline constexpr size_t kPlanEventsMax = 1024;

// Owner thread.
class PlanStreams {
 public:
  struct Rank {
    std::string job, pool, incarnation;
    int rank = 0;
  };
  // Adds a stream. An earlier stream of the same rank ends with ABORTED.
  void Add(const Rank& rank, std::shared_ptr<PlanStream> stream);

  void SendToJob(absl::string_view job, const v1::PlanEvent& event);
  void SendToPool(absl::string_view job, absl::string_view pool, const v1::PlanEvent& event);
  // Ends and forgets the streams of a job, or of an incarnation of a pool.
  void EndStreamsOf(absl::string_view job, const absl::Status& status);
  void EndPool(absl::string_view job, absl::string_view pool, absl::string_view incarnation,
               const absl::Status& status);
  // Ends all streams, also those that are added later.
  void EndAll(const absl::Status& status);

  // Forgets the streams that have ended by themselves.
  void Sweep();

 private:
  struct Entry {
    std::string incarnation;
    std::shared_ptr<PlanStream> stream;
  };
  using Key = std::tuple<std::string, std::string, int>;  // Job, pool, rank.
  template <typename Visit>
  void ForJob(absl::string_view job, Visit visit);

  std::map<Key, Entry> streams_;
  absl::Status closed_;  // Not OK after EndAll.
};

}  // namespace longhaul::coordinator
