// Emulates the streams of a device in host memory. Works run on the threads that wait.
// They run as late as their events allow, and out of order by seeded chance. So a forgotten wait
// gives wrong bytes.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/random.h"
#include "tests/testing/device_streams.h"

namespace longhaul {

class EmulatedStreams : public DeviceStreams {
 public:
  explicit EmulatedStreams(uint64_t seed) : random_(seed) {}
  // Drops queued work for which nobody waited.
  ~EmulatedStreams() override;
  // From now on another seed decides when works run.
  void Reseed(uint64_t seed) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs all works that nothing holds up.
  void RunAll() ABSL_LOCKS_EXCLUDED(mutex_);

  // Queues any other work of the device, such as the kernels of a model. It must not block.
  void Submit(void* stream, std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<std::shared_ptr<void>> NewStream() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<EventPtr> Record(void* stream) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Block(void* stream, const EventPtr& event) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Copy(void* stream, void* to, const void* from, int64_t bytes) override;
  absl::Status Sum(void* stream, absl::Span<const float* const> sources, float* output,
                   int64_t count) override;
  absl::Status Sum(void* stream, absl::Span<const double* const> sources, double* output,
                   int64_t count) override;
  absl::Status Wait(const EventPtr& event, absl::Time deadline) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the event has come. Runs nothing.
  bool Done(const EventPtr& event) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The Event of this class.
  struct Mark;
  struct Work {
    // One of the three is set: a function to run, an event that is reached here, or an event for
    // which the stream waits.
    std::function<void()> run;
    std::shared_ptr<Mark> reached;
    std::shared_ptr<const Mark> after;
  };
  struct Stream {
    std::deque<Work> works;
    // The first work runs now, on some thread.
    bool running = false;
  };

  template <typename T>
  absl::Status SubmitSum(void* stream, absl::Span<const T* const> sources, T* output,
                         int64_t count);
  void Push(void* stream, Work work) ABSL_LOCKS_EXCLUDED(mutex_);
  static bool IsReady(const Stream& stream);
  // The stream whose first work must run next so that the mark is reached. Null if another thread
  // runs it. `*stuck`: no work can ever reach it.
  Stream* Needed(const Mark& mark, bool* stuck) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Stream* AnyReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs the first work of a stream that is ready. Releases the lock meanwhile.
  void RunFirst(Stream& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  absl::CondVar changed_;
  // Streams are never removed.
  std::vector<std::unique_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
  Random random_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
