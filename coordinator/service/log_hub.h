// Connects readers of logs with the agents that have the lines. Keeps no line: a reader that does
// not keep up loses some, and is told how many. An agent that comes back goes on where each reader
// is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/names.h"
#include "coordinator/service/outgoing_stream.h"
#include "longhaul/v1/logs.pb.h"

namespace longhaul::coordinator {

// A node's agent, as the hub sends to it. Thread-safe; never blocks.
class LogSource {
 public:
  virtual ~LogSource() = default;
  virtual void Send(const v1::ServeLogsResponse& message) = 0;
  virtual void End(const absl::Status& status) = 0;
};

// Thread-safe; never blocks.
class LogHub {
 public:
  using ReaderStream = OutgoingStream<v1::FollowLogsResponse>;
  static constexpr int kReadersMax = 64;
  // Messages that wait for one reader; each has at most kLogTextMax bytes of text.
  static constexpr size_t kQueueMax = 64;
  // A pool has as many agents as nodes. One that comes back may find its earlier stream.
  static constexpr int kSourcesOfPoolMax = 2 * kRanksMax;

  // Asks all sources that the request names. Ends the stream with RESOURCE_EXHAUSTED when there are
  // too many readers.
  void Read(const v1::FollowLogsRequest& request, std::shared_ptr<ReaderStream> stream)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the source with RESOURCE_EXHAUSTED when its pool has too many.
  int64_t Add(std::shared_ptr<LogSource> source, const std::string& pool, int node)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Deliver(int64_t source, v1::ServeLogsRequest message) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(int64_t source) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends all readers and sources, also those that come later.
  void EndAll(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Source {
    std::shared_ptr<LogSource> stream;
    std::string pool;
    int node = 0;
  };
  using Node = std::pair<std::string, int>;  // Its pool, and its number there.
  struct Reader {
    v1::FollowLogsRequest request;  // Without `positions`.
    std::shared_ptr<ReaderStream> stream;
    std::map<Node, v1::LogPosition> positions;
    std::set<int64_t> asked;             // Sources that have not ended.
    std::map<int64_t, int64_t> dropped;  // By source: lines that this side lost.
  };
  // Messages to send after the lock is released, since a source may call back at once.
  class Outbox;
  void Ask(int64_t reader_id, Reader& reader, int64_t source_id, const Source& source, Outbox& out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes readers whose clients are gone.
  void Sweep(Outbox& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pass(int64_t source_id, const Source& source, Reader& reader, v1::ServeLogsRequest& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SourceEnded(std::map<int64_t, Reader>::iterator reader, int64_t source)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  int64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<int64_t, Source> sources_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, Reader> readers_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);  // Not OK after EndAll.
};

}  // namespace longhaul::coordinator
