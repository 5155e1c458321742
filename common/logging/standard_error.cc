#include "common/logging/standard_error.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/string_view.h"

namespace longhaul {
namespace {

constexpr size_t kBytesMax = 1 << 20;

bool WriteAll(absl::string_view line) {
  while (!line.empty()) {
    const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
    if (written > 0) {
      line.remove_prefix(written);
    } else if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      // Another program of this terminal or pipe made it so.
      pollfd room{.fd = STDERR_FILENO, .events = POLLOUT};
      (void)poll(&room, 1, -1);
    } else if (written == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

// Never destroyed, since threads may log until the process ends.
LineQueue& Lines() {
  static LineQueue& lines = *new LineQueue(WriteAll, kBytesMax);
  return lines;
}

}  // namespace

void WriteToStandardError(std::string line, bool important) {
  Lines().Add(std::move(line), important);
}
void SetStandardErrorNotice(LineQueue::Notice notice) { Lines().SetNotice(std::move(notice)); }
void FlushStandardError(absl::Duration patience) { (void)Lines().Flush(patience); }
int64_t StandardErrorLinesDropped() { return Lines().dropped(); }

}  // namespace longhaul
