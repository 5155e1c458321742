#include "worker/movement/movement.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longhaul {
namespace {

absl::Status WrongVersion(const Movement::Use& use, int64_t found, absl::string_view when) {
  return absl::InternalError(absl::StrFormat("%s is read at version %d and has %d %s",
                                             use.buffer->name(), use.version, found, when));
}

}  // namespace

MoveToken Movement::Copy(MoveQueue queue, Use from, Use to, int64_t bytes,
                         absl::Span<const MoveToken> after) {
  const bool up = queue.direction == Direction::kUp;
  Work work{.name = absl::StrCat("copying ", from.buffer->name(), " to ", to.buffer->name()),
            .reads = {from},
            .writes = {to},
            .bytes = bytes,
            .after = {after.begin(), after.end()}};
  if (bytes < 0 || bytes > from.buffer->bytes() || bytes > to.buffer->bytes()) {
    Fail(absl::InternalError(absl::StrFormat("%s: %d bytes, of %d and %d", work.name, bytes,
                                             from.buffer->bytes(), to.buffer->bytes())));
    return {};
  }
  if (from.buffer->side() != (up ? MemorySide::kHost : MemorySide::kDevice) ||
      to.buffer->side() != (up ? MemorySide::kDevice : MemorySide::kHost)) {
    Fail(absl::InternalError(absl::StrCat(work.name, ": on a queue of the other direction")));
    return {};
  }
  return Submit(static_cast<int>(queue.move_class) * 2 + (up ? 0 : 1), std::move(work));
}

MoveToken Movement::Compute(DeviceWork work, std::vector<Use> reads, std::vector<Use> writes,
                            absl::Span<const MoveToken> after) {
  return Submit(kComputeQueue, {.name = "a work of the device",
                                .run = std::move(work),
                                .reads = std::move(reads),
                                .writes = std::move(writes),
                                .after = {after.begin(), after.end()}});
}

MoveToken Movement::Submit(int queue, Work work) {
  absl::MutexLock lock(&submit_mutex_);
  for (const Use& use : work.reads) {
    if (use.buffer->promised_ == use.version) continue;
    Fail(WrongVersion(use, use.buffer->promised_, "after all that was submitted"));
    return {};
  }
  for (const Use& use : work.writes) use.buffer->promised_ = use.version;
  const MoveToken token{queue, submitted_[queue] + 1};
  // A work that is not enqueued never ends: a wait for it would last until the timeout, and hide
  // the error.
  if (const absl::Status status = Enqueue(token, std::move(work)); !status.ok()) {
    Fail(status);
    return {};
  }
  submitted_[queue] = token.number;
  return token;
}

absl::Status Movement::WaitAll(absl::string_view what) {
  std::array<int64_t, kQueues> submitted;
  {
    absl::MutexLock lock(&submit_mutex_);
    submitted = submitted_;
  }
  absl::Status first;
  for (int queue = 0; queue < kQueues && !absl::IsDeadlineExceeded(first); ++queue)
    first.Update(Wait({queue, submitted[queue]}, what));
  return first;
}

void Movement::Keep(std::shared_ptr<void> memory) {
  absl::MutexLock lock(&error_mutex_);
  kept_.push_back(std::move(memory));
}

absl::Status Movement::Expect(const Use& use) {
  const int64_t found = use.buffer->version();
  return found == use.version ? absl::OkStatus() : WrongVersion(use, found, "now");
}

void Movement::Fail(const absl::Status& status) {
  absl::MutexLock lock(&error_mutex_);
  if (error_.ok()) error_ = status;
}

absl::Status Movement::error() const {
  absl::MutexLock lock(&error_mutex_);
  return error_;
}

}  // namespace longhaul
