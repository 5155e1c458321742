// A timeline of a rank's work, in the Trace Event Format that chrome://tracing and Perfetto read.
// Each rank has a file, and each thread of the engine a track.
//
// Thread-safe. A thread of its own writes the file: no step waits for the disk. Writes the first
// kEventsMax events, so that a file stays below 100 MB. Events that cannot be written are dropped.
// The file of a process that was killed ends behind a whole event; these programs do not need the
// closing bracket.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/logging/line_queue.h"

namespace longhaul {

class Trace {
 public:
  enum class Track { kCompute, kCollectives, kStaging };
  static constexpr int kEventsMax = 500'000;

  // Makes a new file at `path`. INTERNAL: it cannot be written; the message names it.
  static absl::StatusOr<std::unique_ptr<Trace>> Create(const std::string& path, int rank);
  // Ends the file, so that it is valid. Waits for the disk, but not for long.
  ~Trace();
  Trace(const Trace&) = delete;

  // An event from the construction to the destruction of the object. `trace` may be null: there is
  // no event.
  class Span {
   public:
    Span(Trace* trace, Track track, absl::string_view name);
    ~Span();
    Span(const Span&) = delete;

   private:
    Trace* const trace_;
    const Track track_;
    const std::string name_;
    const std::chrono::steady_clock::time_point begin_;
  };

 private:
  Trace(LineQueue::Write write, int rank);
  void Write(bool important) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(Track track, absl::string_view name, std::chrono::steady_clock::time_point begin,
           std::chrono::steady_clock::time_point end) ABSL_LOCKS_EXCLUDED(mutex_);

  const int rank_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  absl::Mutex mutex_;
  // Of many events each.
  LineQueue blocks_;
  // Whole events that are in no block yet.
  std::string pending_ ABSL_GUARDED_BY(mutex_);
  int events_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longhaul
