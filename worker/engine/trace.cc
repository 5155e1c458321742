#include "worker/engine/trace.h"

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace longhaul {
namespace {

constexpr size_t kWriteBytes = 64 << 10;

double Microseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trace>> Trace::Create(const std::string& path, int rank) {
  FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    // With the code of a missing path it would count as missing data.
    return absl::InternalError(
        absl::ErrnoToStatus(errno, absl::StrCat("cannot write the timeline ", path)).message());
  }
  std::setvbuf(file, nullptr, _IONBF, 0);
  std::unique_ptr<Trace> trace(new Trace(file, rank));
  absl::MutexLock lock(&trace->mutex_);
  absl::StrAppendFormat(
      &trace->pending_,
      "[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank "
      "%d\"}},\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"args\":{"
      "\"name\":\"compute\"}},\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,"
      "\"tid\":1,\"args\":{\"name\":\"collectives\"}}",
      rank, rank, rank, rank);
  trace->Write();
  return trace;
}

Trace::~Trace() {
  absl::MutexLock lock(&mutex_);
  pending_ += "]\n";
  Write();
  std::fclose(file_);
}

void Trace::Write() {
  std::fwrite(pending_.data(), 1, pending_.size(), file_);
  pending_.clear();
}

void Trace::Add(Track track, absl::string_view name, std::chrono::steady_clock::time_point begin,
                std::chrono::steady_clock::time_point end) {
  absl::MutexLock lock(&mutex_);
  if (++events_ > kEventsMax) return;
  absl::StrAppendFormat(
      &pending_, ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.1f,\"dur\":%.1f}",
      absl::StrReplaceAll(name, {{"\\", "\\\\"}, {"\"", "\\\""}}), rank_, static_cast<int>(track),
      Microseconds(begin - start_), Microseconds(end - begin));
  if (pending_.size() >= kWriteBytes) Write();
}

Trace::Span::Span(Trace* trace, Track track, absl::string_view name)
    : trace_(trace),
      track_(track),
      name_(trace == nullptr ? absl::string_view() : name),
      begin_(trace == nullptr ? std::chrono::steady_clock::time_point()
                              : std::chrono::steady_clock::now()) {}

Trace::Span::~Span() {
  if (trace_ != nullptr) trace_->Add(track_, name_, begin_, std::chrono::steady_clock::now());
}

}  // namespace longhaul
