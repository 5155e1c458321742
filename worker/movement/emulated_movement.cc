#include "worker/movement/emulated_movement.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "worker/movement/late_device.h"

namespace longhaul {
namespace {

constexpr std::align_val_t kArenaAlignment{256};

}  // namespace

EmulatedMovement::EmulatedMovement(const Options& options)
    : options_(options), random_(options.seed) {
  links_[0].bytes_per_second = options.up_bytes_per_second;
  links_[1].bytes_per_second = options.down_bytes_per_second;
  if (options.mode == Mode::kLate) return;
  copier_ = std::thread([this] { CopyInBackground(); });
  computer_ = std::thread([this] { ComputeInBackground(); });
}

EmulatedMovement::~EmulatedMovement() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (copier_.joinable()) copier_.join();
  if (computer_.joinable()) computer_.join();
}

absl::StatusOr<std::shared_ptr<std::byte>> EmulatedMovement::Allocate(MemorySide side,
                                                                      int64_t bytes,
                                                                      absl::string_view what) {
  const bool host = side == MemorySide::kHost;
  const int64_t most = host ? options_.host_bytes_max : options_.device_bytes_max;
  {
    absl::MutexLock lock(&mutex_);
    int64_t& allocated = allocated_[static_cast<int>(side)];
    if (most > 0 && allocated + bytes > most) {
      return absl::ResourceExhaustedError(absl::StrFormat(
          "%s: %s %d bytes, %d of %d are in use", what,
          host ? "pinning host memory of" : "allocating device memory of", bytes, allocated, most));
    }
    allocated += bytes;
  }
  auto* const memory =
      static_cast<std::byte*>(::operator new(bytes, kArenaAlignment, std::nothrow));
  if (memory == nullptr)
    return absl::ResourceExhaustedError(absl::StrFormat("%s: no memory for %d bytes", what, bytes));
  std::memset(memory, 0, bytes);
  return std::shared_ptr<std::byte>(
      memory, [](std::byte* bytes) { ::operator delete(bytes, kArenaAlignment); });
}

absl::Status EmulatedMovement::Enqueue(const MoveToken& token, Work work) {
  absl::MutexLock lock(&mutex_);
  queues_[token.queue].waiting.push_back(std::move(work));
  changed_.SignalAll();
  return absl::OkStatus();
}

bool EmulatedMovement::IsReady(int queue) const {
  const std::deque<Work>& waiting = queues_[queue].waiting;
  return !waiting.empty() && std::all_of(waiting.front().after.begin(), waiting.front().after.end(),
                                         [this](const MoveToken& token) {
                                           mutex_.AssertHeld();
                                           return IsDone(token);
                                         });
}

int EmulatedMovement::PickReady(int first, int end, int step) {
  std::array<int, kQueues> ready;
  size_t count = 0;
  for (int queue = first; queue < end; queue += step) {
    if (IsReady(queue)) ready[count++] = queue;
  }
  return count == 0 ? -1 : ready[random_.Below(count)];
}

absl::Status EmulatedMovement::RunWork(const Work& work) {
  for (const Use& use : work.reads) {
    if (const absl::Status status = Expect(use); !status.ok())
      return absl::InternalError(
          absl::StrCat(work.name, ": ", status.message(), ": a wait is missing"));
  }
  if (work.run) {
    LH_RETURN_IF_ERROR(work.run(nullptr));
  } else if (work.bytes > 0) {
    std::memcpy(work.writes[0].buffer->memory().data(), work.reads[0].buffer->memory().data(),
                work.bytes);
  }
  for (const Use& use : work.writes) SetPresent(use);
  return absl::OkStatus();
}

void EmulatedMovement::EndFirst(int queue, const absl::Status& status) {
  if (!status.ok()) Fail(status);
  queues_[queue].waiting.pop_front();
  ++queues_[queue].done;
  changed_.SignalAll();
}

void EmulatedMovement::RunUntil(const MoveToken& token) {
  while (!IsDone(token)) {
    const int queue = PickReady(0, kQueues, 1);
    if (queue < 0) {
      Fail(absl::InternalError("nothing can run: works wait for what was never submitted"));
      return;
    }
    EndFirst(queue, RunWork(queues_[queue].waiting.front()));
  }
}

bool EmulatedMovement::Done(const MoveToken& token) {
  absl::MutexLock lock(&mutex_);
  return IsDone(token);
}

absl::Status EmulatedMovement::Join(const MoveToken& token) {
  return Wait(token, "a join with the device's queues");
}

absl::Status EmulatedMovement::Wait(const MoveToken& token, absl::string_view what) {
  absl::MutexLock lock(&mutex_);
  if (options_.mode == Mode::kLate) {
    RunUntil(token);
    return error();
  }
  const absl::Duration timeout = options_.timeout.now();
  const absl::Time deadline = SteadyTime() + timeout;
  while (!IsDone(token)) {
    const absl::Duration left = deadline - SteadyTime();
    if (left > absl::ZeroDuration()) {
      changed_.WaitWithTimeout(&mutex_, left);
      continue;
    }
    return LateDeviceError(what, timeout);
  }
  return error();
}

std::optional<EmulatedMovement::Time> EmulatedMovement::StartCopies() {
  const Time now = std::chrono::steady_clock::now();
  std::optional<Time> next;
  for (int direction = 0; direction < 2; ++direction) {
    Link& link = links_[direction];
    for (int queue = direction; queue < kMoveQueues; queue += 2) {
      const bool under_way = queue == link.queue;
      if (!under_way && !queues_[queue].ready.has_value() && IsReady(queue))
        queues_[queue].ready = now;
    }
    if (link.queue < 0) {
      link.queue = PickReady(direction, kMoveQueues, 2);
      if (link.queue < 0) continue;
      Queue& queue = queues_[link.queue];
      const auto bytes = static_cast<double>(queue.waiting.front().bytes);
      // The copy counts from when the link was free, however late this thread sees that.
      link.end = std::max(link.end, *queue.ready);
      if (link.bytes_per_second > 0) {
        link.end += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
            std::chrono::duration<double>(bytes / link.bytes_per_second));
      }
      queue.ready.reset();
      link.moved = false;
    }
    if (!next.has_value() || link.end < *next) next = link.end;
  }
  return next;
}

void EmulatedMovement::CopyInBackground() {
  absl::MutexLock lock(&mutex_);
  while (!stopping_) {
    const std::optional<Time> next = StartCopies();
    if (!next.has_value()) {
      changed_.Wait(&mutex_);
      continue;
    }
    // Copying here takes time, too. It is part of the link's time.
    const auto to_move = std::find_if(links_.begin(), links_.end(), [](const Link& link) {
      return link.queue >= 0 && !link.moved;
    });
    if (to_move != links_.end()) {
      const Work& work = queues_[to_move->queue].waiting.front();
      mutex_.Unlock();
      absl::Status status = RunWork(work);
      mutex_.Lock();
      to_move->status = std::move(status);
      to_move->moved = true;
      continue;
    }
    const Time now = std::chrono::steady_clock::now();
    if (*next > now) {
      changed_.WaitWithTimeout(&mutex_, absl::FromChrono(*next - now));
      continue;
    }
    Link& link = links_[links_[0].queue >= 0 && links_[0].end == *next ? 0 : 1];
    const int ended = std::exchange(link.queue, -1);
    EndFirst(ended, link.status);
    // The next work of this queue waited for nothing but the link.
    if (IsReady(ended)) queues_[ended].ready = link.end;
  }
}

void EmulatedMovement::ComputeInBackground() {
  absl::MutexLock lock(&mutex_);
  while (!stopping_) {
    if (!IsReady(kComputeQueue)) {
      changed_.Wait(&mutex_);
      continue;
    }
    const Work& work = queues_[kComputeQueue].waiting.front();
    mutex_.Unlock();
    const absl::Status status = RunWork(work);
    mutex_.Lock();
    EndFirst(kComputeQueue, status);
  }
}

}  // namespace longhaul
