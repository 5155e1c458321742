#include "coordinator/pool/set_aside.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"

namespace longhaul {
namespace {

bool Alike(const JobFault& a, const JobFault& b) { return a.code == b.code && a.field == b.field; }

}  // namespace

bool SetAsides::Add(std::string_view pool, JobFault fault, absl::Time now) {
  if (Blocked(pool, now)) return false;
  auto it = pools_.find(pool);
  if (it == pools_.end()) {
    if (pools_.size() >= kPoolsMax) Clear(std::string(retries_.begin()->second));
    it = pools_.emplace(pool, SetAside()).first;
    if (const auto before = contributed_.find(pool); before != contributed_.end()) {
      const SetAside& entry = before->second;
      if (Alike(entry.fault, fault) && now < entry.retry_at + entry.delay) it->second = entry;
      contributed_.erase(before);
    }
  } else {
    retries_.erase({it->second.retry_at, it->first});
  }
  SetAside& entry = it->second;
  absl::Duration delay = kDelay;
  for (int i = 0; i < entry.failures && delay < kDelayMax; ++i) delay *= 2;
  entry.alike = entry.failures > 0 && Alike(entry.fault, fault) ? entry.alike + 1 : 1;
  ++entry.failures;
  entry.fault = std::move(fault);
  entry.fault.pool = pool;
  entry.delay = std::min(delay, kDelayMax);
  entry.retry_at = now + entry.delay;
  retries_.insert({entry.retry_at, it->first});
  return true;
}

void SetAsides::Clear(std::string_view pool) {
  const auto it = pools_.find(pool);
  if (it == pools_.end()) return;
  retries_.erase({it->second.retry_at, it->first});
  pools_.erase(it);
}

void SetAsides::Contributed(std::string_view pool) {
  const auto it = pools_.find(pool);
  if (it == pools_.end()) return;
  if (contributed_.size() >= kPoolsMax) contributed_.clear();
  contributed_.insert_or_assign(it->first, it->second);
  Clear(pool);
}

bool SetAsides::Blocked(std::string_view pool, absl::Time now) const {
  const auto it = pools_.find(pool);
  return it != pools_.end() && now < it->second.retry_at;
}

absl::Time SetAsides::NextRetry(absl::Time now) const {
  for (auto it = retries_.lower_bound({now, ""}); it != retries_.end(); ++it) {
    if (it->first > now) return it->first;
  }
  return absl::InfiniteFuture();
}

std::map<std::string, std::string> SetAsides::Excluded(absl::Time now) const {
  std::map<std::string, std::string> excluded;
  for (auto it = retries_.lower_bound({now, ""}); it != retries_.end(); ++it) {
    if (it->first > now) excluded.emplace(it->second, Describe(pools_.at(it->second), now));
  }
  return excluded;
}

std::optional<JobFault> SetAsides::Verdict(const std::vector<std::string>& eligible,
                                           absl::Time now) const {
  const JobFault* first = nullptr;
  for (const std::string& pool : eligible) {
    const auto it = pools_.find(pool);
    if (it == pools_.end() || it->second.alike < 2 || now >= it->second.retry_at) {
      return std::nullopt;
    }
    if (first == nullptr) first = &it->second.fault;
    if (!Alike(*first, it->second.fault)) return std::nullopt;
  }
  return first == nullptr ? std::nullopt : std::make_optional(*first);
}

std::string Describe(const SetAside& set_aside, absl::Time now) {
  const JobFault& fault = set_aside.fault;
  std::string words(ClipUtf8(fault.field, 64));
  if (!fault.message.empty()) {
    absl::StrAppend(&words, words.empty() ? "" : ": ", ClipWords(fault.message, 100));
  }
  if (words.empty()) words = std::string(ClipUtf8(fault.code, 64));
  // Whole seconds, rounded up, so that the pool never tries later than said.
  const int64_t seconds =
      absl::ToInt64Seconds(absl::Ceil(set_aside.retry_at - now, absl::Seconds(1)));
  if (seconds > 0) absl::StrAppend(&words, ", again in ", seconds, " s");
  return words;
}

}  // namespace longhaul
