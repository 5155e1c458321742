// A timeline of what a rank does, in the Trace Event Format that chrome://tracing and Perfetto read:
// one file a rank, one track for each thread of the engine.
//
// Thread-safe. Does not block but for the file. Keeps the first kEventsMax events, so that a file
// stays below 100 MB. What cannot be written is dropped.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace longhaul {

class Trace {
 public:
  enum class Track { kCompute, kCollectives };
  static constexpr int kEventsMax = 500'000;

  // A new file at `path`. Errors name it.
  static absl::StatusOr<std::unique_ptr<Trace>> Create(const std::string& path, int rank);
  // Makes the file whole.
  ~Trace();
  Trace(const Trace&) = delete;

  // From its construction to its end. `trace` may be null: then nothing happens.
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
  Trace(FILE* file, int rank) : rank_(rank), file_(file) {}
  void Add(Track track, absl::string_view name, std::chrono::steady_clock::time_point begin,
           std::chrono::steady_clock::time_point end) ABSL_LOCKS_EXCLUDED(mutex_);

  const int rank_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  absl::Mutex mutex_;
  FILE* const file_ ABSL_PT_GUARDED_BY(mutex_);
  int events_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longhaul
