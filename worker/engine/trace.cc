#include "worker/engine/trace.h"

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace longhaul {
namespace {

double Microseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trace>> Trace::Create(const std::string& path, int rank) {
  FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  std::fprintf(file,
               "[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank "
               "%d\"}},\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"args\":{"
               "\"name\":\"compute\"}},\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,"
               "\"tid\":1,\"args\":{\"name\":\"collectives\"}}",
               rank, rank, rank, rank);
  return std::unique_ptr<Trace>(new Trace(file, rank));
}

Trace::~Trace() {
  absl::MutexLock lock(&mutex_);
  std::fputs("]\n", file_);
  std::fclose(file_);
}

void Trace::Add(Track track, absl::string_view name, std::chrono::steady_clock::time_point begin,
                std::chrono::steady_clock::time_point end) {
  absl::MutexLock lock(&mutex_);
  if (++events_ > kEventsMax) return;
  std::fprintf(file_,
               ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.1f,\"dur\":%.1f}",
               absl::StrReplaceAll(name, {{"\\", "\\\\"}, {"\"", "\\\""}}).c_str(), rank_,
               static_cast<int>(track), Microseconds(begin - start_), Microseconds(end - begin));
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
