#include "worker/agent/log_ring.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"

namespace longhaul {
namespace {

uint64_t RandomNumber() {
  std::random_device random;
  const uint64_t number = uint64_t{random()} << 32 | random();
  return number == 0 ? 1 : number;
}

}  // namespace

LogRing::LogRing(size_t bytes_max) : bytes_max_(bytes_max), id_(RandomNumber()) {}

void LogRing::SetJob(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  job_ = job_id;
}

void LogRing::Add(absl::string_view line) {
  absl::MutexLock lock(&mutex_);
  lines_.push_back({std::string(ClipUtf8(line, kLineMax)), job_});
  bytes_ += sizeof(Line) + lines_.back().text.size();
  while (bytes_ > bytes_max_ && lines_.size() > 1) {
    bytes_ -= sizeof(Line) + lines_.front().text.size();
    lines_.pop_front();
    ++first_;
  }
}

int64_t LogRing::Before(int64_t lines, const std::string& job_id) const {
  absl::MutexLock lock(&mutex_);
  int64_t number = end();
  for (auto line = lines_.rbegin(); line != lines_.rend() && lines > 0; ++line, --number) {
    if (job_id.empty() || line->job == job_id) --lines;
  }
  return number;
}

int64_t LogRing::GoOnAt(uint64_t id, int64_t next) const {
  absl::MutexLock lock(&mutex_);
  return id == id_ ? std::clamp<int64_t>(next, 0, end()) : 0;
}

LogRing::Chunk LogRing::Read(int64_t from, const std::string& job_id, size_t bytes_max) const {
  absl::MutexLock lock(&mutex_);
  Chunk chunk{.dropped = std::max<int64_t>(0, first_ - from), .next = std::max(from, first_)};
  for (; chunk.next < end(); ++chunk.next) {
    const Line& line = lines_[chunk.next - first_];
    if (!job_id.empty() && line.job != job_id) continue;
    if (!chunk.text.empty() && chunk.text.size() + line.text.size() + 1 > bytes_max) break;
    absl::StrAppend(&chunk.text, line.text, "\n");
  }
  return chunk;
}

}  // namespace longhaul
