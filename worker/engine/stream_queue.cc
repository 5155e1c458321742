#include "worker/engine/stream_queue.h"

#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "c10/core/Event.h"
#include "c10/core/StreamGuard.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "common/base/clock.h"
#include "common/base/status_marks.h"
#include "worker/engine/torch_status.h"
#include "worker/movement/late_device.h"

namespace longhaul {
namespace {

// How often a wait looks at the device within its patience.
constexpr int kLooks = 10;

absl::Status Run(const std::string& name, const std::function<absl::Status()>& work) {
  const absl::Status status = CatchTorch(name, work);
  if (status.ok() || absl::StartsWith(status.message(), name)) return status;
  return WithContext(name, status);
}

// Orders the streams of a device. On a CPU there is nothing to order.
class Fence {
 public:
  explicit Fence(c10::Device device) {
    if (!device.is_cpu()) event_.emplace(device.type());
  }
  void Record(const std::optional<c10::Stream>& stream) {
    if (event_.has_value()) event_->record(*stream);
  }
  void Block(const std::optional<c10::Stream>& stream) const {
    if (event_.has_value()) event_->block(*stream);
  }
  bool Reached() const { return !event_.has_value() || event_->query(); }

 private:
  std::optional<c10::Event> event_;
};

// On a device that has failed torch throws at every event.
absl::Status RecordOn(const std::optional<c10::Stream>& stream, Fence& fence) {
  return CatchTorch("recording an event", [&]() -> absl::Status {
    fence.Record(stream);
    return absl::OkStatus();
  });
}
absl::Status BlockOn(const std::optional<c10::Stream>& stream, const Fence& fence) {
  return CatchTorch("waiting for an event", [&]() -> absl::Status {
    fence.Block(stream);
    return absl::OkStatus();
  });
}

class ThreadQueue : public StreamQueue {
 public:
  ThreadQueue(c10::Device device, StreamQueueOptions options)
      : device_(device), options_(std::move(options)), thread_([this] { RunAll(); }) {}
  ~ThreadQueue() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  Ticket Submit(std::string name, std::function<absl::Status()> work) override {
    Fence submitted(device_);
    absl::Status recorded = RecordOn(CurrentStream(), submitted);
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = std::move(recorded);
    works_.push_back({std::move(name), std::move(work), std::move(submitted)});
    return ++last_;
  }

  absl::Status Wait(Ticket ticket) override {
    absl::MutexLock lock(&mutex_);
    const auto done = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return done_ >= ticket || !status_.ok();
    };
    const absl::Duration patience =
        device_.is_cpu() ? absl::InfiniteDuration() : options_.patience.now();
    while (!mutex_.AwaitWithTimeout(absl::Condition(&done), patience / kLooks))
      status_ = CheckDevice(patience);
    if (ticket > 0 && status_.ok()) status_ = BlockOn(CurrentStream(), done_fence_);
    return status_;
  }

 private:
  struct Work {
    std::string name;
    std::function<absl::Status()> run;
    Fence submitted;
  };

  // While a work waits for what the caller enqueued before it, it waits for this device alone: all
  // earlier works are done. Its own wait for the ranks would take that for a peer's fault, later.
  absl::Status CheckDevice(absl::Duration patience) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!begun_.has_value() || SteadyTime() - *begun_ < patience) return absl::OkStatus();
    const Work& work = works_.front();
    return CatchTorch("looking at an event", [&] {
      return work.submitted.Reached() ? absl::OkStatus() : LateDeviceError(work.name, patience);
    });
  }

  std::optional<c10::Stream> CurrentStream() const {
    if (device_.is_cpu()) return std::nullopt;
    return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  }

  void RunAll() {
    c10::OptionalStreamGuard guard;
    std::optional<c10::Stream> stream;
    if (!device_.is_cpu()) {
      stream = c10::impl::VirtualGuardImpl(device_.type())
                   .getStreamFromGlobalPool(device_, options_.urgent);
      guard.reset_stream(*stream);
    }
    while (true) {
      // It stays where it is, since works are added behind it.
      Work* work = nullptr;
      {
        absl::MutexLock lock(&mutex_);
        const auto ready = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
          return stopping_ || (!works_.empty() && status_.ok());
        };
        mutex_.Await(absl::Condition(&ready));
        if (stopping_) return;
        work = &works_.front();
        begun_ = SteadyTime();
      }
      absl::Status status = BlockOn(stream, work->submitted);
      if (status.ok()) {
        const Trace::Span span(options_.trace, options_.track, work->name);
        status = Run(work->name, work->run);
      }
      absl::MutexLock lock(&mutex_);
      works_.pop_front();
      begun_.reset();
      if (status.ok()) status = RecordOn(stream, done_fence_);
      if (status_.ok()) status_ = std::move(status);
      ++done_;
    }
  }

  const c10::Device device_;
  const StreamQueueOptions options_;
  absl::Mutex mutex_;
  // The first is the one that runs, if one runs.
  std::deque<Work> works_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Time> begun_ ABSL_GUARDED_BY(mutex_);
  Ticket last_ ABSL_GUARDED_BY(mutex_) = 0, done_ ABSL_GUARDED_BY(mutex_) = 0;
  // Follows the last work that is done. Works share one stream, so it follows all earlier ones,
  // too.
  Fence done_fence_ ABSL_GUARDED_BY(mutex_){device_};
  // The first error.
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class ImmediateQueue : public StreamQueue {
 public:
  Ticket Submit(std::string name, std::function<absl::Status()> work) override {
    if (status_.ok()) status_ = Run(name, work);
    return ++last_;
  }
  absl::Status Wait(Ticket) override { return status_; }

 private:
  Ticket last_ = 0;
  absl::Status status_;
};

}  // namespace

std::unique_ptr<StreamQueue> MakeStreamQueue(c10::Device device, StreamQueueOptions options) {
  return std::make_unique<ThreadQueue>(device, std::move(options));
}

std::unique_ptr<StreamQueue> MakeImmediateQueue() { return std::make_unique<ImmediateQueue>(); }

}  // namespace longhaul
