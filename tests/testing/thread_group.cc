#include "tests/testing/thread_group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_marks.h"

namespace longhaul {

absl::Status ThreadGroup::Meet(int rank, Call call, absl::Duration timeout) {
  const absl::string_view operation = call.operation;
  absl::MutexLock lock(&mutex_);
  if (!end_.ok()) return EndOf(operation);
  calls_[rank] = std::move(call);
  arrived_[rank] = true;
  const int64_t meeting = meetings_;
  if (++arrived_count_ == size()) {
    arrived_.assign(size(), false);
    arrived_count_ = 0;
    readers_ = size();
    ++meetings_;
  }
  const auto decided = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return meetings_ != meeting || !end_.ok() || WaitsForDeparted();
  };
  mutex_.AwaitWithTimeout(absl::Condition(&decided), timeout);
  // A complete meeting is valid even if the group was aborted meanwhile, since other ranks may
  // already read this rank's input.
  if (meetings_ != meeting) {
    const absl::Status agreed = CheckCallsAgree();
    if (agreed.ok()) return agreed;
    if (--readers_ > 0) {
      // The others still read the calls, to come to the same result.
      const auto done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return readers_ == 0; };
      mutex_.Await(absl::Condition(&done));
    }
    return Fail(agreed);
  }
  if (!end_.ok()) return EndOf(operation);
  if (WaitsForDeparted()) {
    std::vector<bool> present(size());
    for (int i = 0; i < size(); ++i) present[i] = !departed_[i] || arrived_[i];
    return Fail(
        absl::CancelledError(absl::StrCat(operation, ": ", MissingRanks(present), " has left")));
  }
  return Fail(absl::DeadlineExceededError(absl::StrCat(
      operation, ": waited ", absl::FormatDuration(timeout), " for ", MissingRanks(arrived_))));
}

void ThreadGroup::Leave() {
  absl::MutexLock lock(&mutex_);
  --readers_;
  const auto done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return readers_ == 0; };
  mutex_.Await(absl::Condition(&done));
}

void ThreadGroup::Abort(absl::string_view reason) {
  absl::MutexLock lock(&mutex_);
  if (end_.ok()) end_ = absl::UnavailableError(absl::StrCat("aborted: ", reason));
}

void ThreadGroup::Depart(int rank) {
  absl::MutexLock lock(&mutex_);
  departed_[rank] = true;
}

absl::Status ThreadGroup::EndOf(absl::string_view operation) const {
  return WithContext(operation, end_);
}

std::string ThreadGroup::MissingRanks(const std::vector<bool>& present) const {
  std::vector<std::string> missing;
  for (int i = 0; i < size(); ++i) {
    if (!present[i]) missing.push_back(absl::StrCat("rank ", i));
  }
  return absl::StrJoin(missing, ", ");
}

bool ThreadGroup::WaitsForDeparted() const {
  for (int i = 0; i < size(); ++i) {
    if (departed_[i] && !arrived_[i]) return true;
  }
  return false;
}

absl::Status ThreadGroup::Fail(absl::Status status) {
  if (end_.ok()) {
    end_ = absl::Status(
        absl::IsCancelled(status) ? absl::StatusCode::kCancelled : absl::StatusCode::kUnavailable,
        absl::StrCat("aborted: ", status.message()));
  }
  return status;
}

absl::Status ThreadGroup::CheckCallsAgree() const {
  for (int i = 1; i < size(); ++i) {
    if (calls_[i].operation != calls_[0].operation || calls_[i].sizes != calls_[0].sizes) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank 0 called ", calls_[0].operation, " of sizes ",
                       absl::StrJoin(calls_[0].sizes, " "), ", rank ", i, " ", calls_[i].operation,
                       " of sizes ", absl::StrJoin(calls_[i].sizes, " ")));
    }
  }
  if (calls_[0].send_parts.empty()) return absl::OkStatus();
  for (int from = 0; from < size(); ++from) {
    for (int to = 0; to < size(); ++to) {
      if (calls_[from].send_parts[to].size != calls_[to].receive_parts[from].size) {
        return absl::FailedPreconditionError(absl::StrCat(
            calls_[0].operation, ": rank ", from, " sends ", calls_[from].send_parts[to].size,
            " bytes to rank ", to, ", which expects ", calls_[to].receive_parts[from].size));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace longhaul
