#include "tests/testing/emulated_streams.h"

#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "worker/collective/rank_order_sum.h"

namespace longhaul {
namespace {

// When a work is queued, other works run at once with a chance of one in so many.
constexpr uint64_t kRunsAtOnce = 8;

}  // namespace

// The pointer to its stream is not used after the event is reached.
struct EmulatedStreams::Mark : DeviceStreams::Event {
  Stream* stream = nullptr;
  // Guarded by the mutex.
  bool reached = false;
};

EmulatedStreams::~EmulatedStreams() = default;

absl::StatusOr<std::shared_ptr<void>> EmulatedStreams::NewStream() {
  absl::MutexLock lock(&mutex_);
  streams_.push_back(std::make_unique<Stream>());
  return std::shared_ptr<void>(streams_.back().get(), [](void*) {});
}

void EmulatedStreams::Reseed(uint64_t seed) {
  absl::MutexLock lock(&mutex_);
  random_ = Random(seed);
}

void EmulatedStreams::RunAll() {
  absl::MutexLock lock(&mutex_);
  while (Stream* const ready = AnyReady()) RunFirst(*ready);
}

void EmulatedStreams::Push(void* stream, Work work) {
  absl::MutexLock lock(&mutex_);
  static_cast<Stream*>(stream)->works.push_back(std::move(work));
  if (random_.Below(kRunsAtOnce) != 0) return;
  for (uint64_t more = 1 + random_.Below(3); more > 0; --more) {
    if (Stream* const ready = AnyReady()) RunFirst(*ready);
  }
}

void EmulatedStreams::Submit(void* stream, std::function<void()> work) {
  Push(stream, {.run = std::move(work)});
}

absl::StatusOr<DeviceStreams::EventPtr> EmulatedStreams::Record(void* stream) {
  auto mark = std::make_shared<Mark>();
  mark->stream = static_cast<Stream*>(stream);
  Push(stream, {.reached = mark});
  return mark;
}

absl::Status EmulatedStreams::Block(void* stream, const EventPtr& event) {
  if (event != nullptr) Push(stream, {.after = std::static_pointer_cast<const Mark>(event)});
  return absl::OkStatus();
}

absl::Status EmulatedStreams::Copy(void* stream, void* to, const void* from, int64_t bytes) {
  Submit(stream, [=] { std::memmove(to, from, bytes); });
  return absl::OkStatus();
}

template <typename T>
absl::Status EmulatedStreams::SubmitSum(void* stream, absl::Span<const T* const> sources, T* output,
                                        int64_t count) {
  Submit(stream, [from = std::vector<const T*>(sources.begin(), sources.end()), output, count] {
    RankOrderSum<T>(from, output, count);
  });
  return absl::OkStatus();
}

absl::Status EmulatedStreams::Sum(void* stream, absl::Span<const float* const> sources,
                                  float* output, int64_t count) {
  return SubmitSum(stream, sources, output, count);
}

absl::Status EmulatedStreams::Sum(void* stream, absl::Span<const double* const> sources,
                                  double* output, int64_t count) {
  return SubmitSum(stream, sources, output, count);
}

bool EmulatedStreams::IsReady(const Stream& stream) {
  if (stream.running || stream.works.empty()) return false;
  const Work& first = stream.works.front();
  return first.after == nullptr || first.after->reached;
}

EmulatedStreams::Stream* EmulatedStreams::Needed(const Mark& mark, bool* stuck) {
  *stuck = false;
  const Mark* next = &mark;
  // Each step goes to a work that must run before. After as many steps as there are streams, there
  // is a circle.
  for (size_t steps = 0; steps <= streams_.size(); ++steps) {
    Stream& stream = *next->stream;
    if (stream.running) return nullptr;
    LH_CHECK(!stream.works.empty(), "an event of a stream that has ended");
    if (IsReady(stream)) return &stream;
    next = stream.works.front().after.get();
  }
  *stuck = true;
  return nullptr;
}

EmulatedStreams::Stream* EmulatedStreams::AnyReady() {
  std::vector<Stream*> ready;
  for (const auto& stream : streams_) {
    if (IsReady(*stream)) ready.push_back(stream.get());
  }
  return ready.empty() ? nullptr : ready[random_.Below(ready.size())];
}

void EmulatedStreams::RunFirst(Stream& stream) {
  stream.running = true;
  Work work = std::move(stream.works.front());
  if (work.run) {
    mutex_.Unlock();
    work.run();
    work.run = nullptr;
    mutex_.Lock();
  }
  stream.works.pop_front();
  stream.running = false;
  if (work.reached != nullptr) work.reached->reached = true;
  changed_.SignalAll();
}

absl::Status EmulatedStreams::Wait(const EventPtr& event, absl::Time deadline) {
  if (event == nullptr) return absl::OkStatus();
  const auto& mark = static_cast<const Mark&>(*event);
  absl::MutexLock lock(&mutex_);
  while (!mark.reached) {
    bool stuck = false;
    Stream* stream = Needed(mark, &stuck);
    if (stuck) return absl::InternalError("streams wait for each other");
    if (stream != nullptr && random_.Below(kRunsAtOnce) == 0) stream = AnyReady();
    if (stream != nullptr) {
      RunFirst(*stream);
    } else if (changed_.WaitWithTimeout(&mutex_, deadline - SteadyTime()) && !mark.reached) {
      return absl::DeadlineExceededError("the device has not come so far");
    }
  }
  return absl::OkStatus();
}

bool EmulatedStreams::Done(const EventPtr& event) {
  absl::MutexLock lock(&mutex_);
  return event == nullptr || static_cast<const Mark&>(*event).reached;
}

}  // namespace longhaul
