#include "worker/engine/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace longhaul {
namespace {

// Of a block, and of all that may wait for the disk.
constexpr size_t kWriteBytes = 64 << 10, kWaitingBytesMax = 16 << 20;

class TraceFile {
 public:
  explicit TraceFile(int descriptor) : descriptor_(descriptor) {}
  ~TraceFile() { close(descriptor_); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  bool Write(absl::string_view block) {
    while (!block.empty()) {
      const ssize_t written = write(descriptor_, block.data(), block.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      block.remove_prefix(written);
    }
    return true;
  }

 private:
  const int descriptor_;
};

double Microseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

Trace::Trace(LineQueue::Write write, int rank)
    : rank_(rank), blocks_(std::move(write), kWaitingBytesMax) {}

absl::StatusOr<std::unique_ptr<Trace>> Trace::Create(const std::string& path, int rank) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    // With the code of a missing path it would count as missing data.
    return absl::InternalError(
        absl::ErrnoToStatus(errno, absl::StrCat("cannot write the timeline ", path)).message());
  }
  const auto file = std::make_shared<TraceFile>(descriptor);
  std::unique_ptr<Trace> trace(
      new Trace([file](absl::string_view block) { return file->Write(block); }, rank));
  absl::MutexLock lock(&trace->mutex_);
  absl::StrAppendFormat(
      &trace->pending_,
      "[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}", rank,
      rank);
  int track = 0;
  for (const char* name : {"compute", "collectives", "staging"}) {
    absl::StrAppendFormat(&trace->pending_,
                          ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,"
                          "\"args\":{\"name\":\"%s\"}}",
                          rank, track++, name);
  }
  trace->Write(/*important=*/false);
  return trace;
}

Trace::~Trace() {
  absl::MutexLock lock(&mutex_);
  pending_ += "]\n";
  Write(/*important=*/true);
}

void Trace::Write(bool important) { blocks_.Add(std::exchange(pending_, {}), important); }

void Trace::Add(Track track, absl::string_view name, std::chrono::steady_clock::time_point begin,
                std::chrono::steady_clock::time_point end) {
  absl::MutexLock lock(&mutex_);
  if (++events_ > kEventsMax) return;
  absl::StrAppendFormat(
      &pending_, ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.1f,\"dur\":%.1f}",
      absl::StrReplaceAll(name, {{"\\", "\\\\"}, {"\"", "\\\""}}), rank_, static_cast<int>(track),
      Microseconds(begin - start_), Microseconds(end - begin));
  if (pending_.size() >= kWriteBytes) Write(/*important=*/false);
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
