#include "worker/agent/log_stream.h"

#include <unistd.h>

#include <cerrno>

namespace longhaul {

void WriteToStandardError(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    // Nobody reads the output, and there is no other place to report that.
    if (written <= 0) return;
    text.remove_prefix(written);
  }
}

int LogStream::overflow(int c) {
  const char character = static_cast<char>(c);
  Take(absl::string_view(&character, 1));
  return c;
}

std::streamsize LogStream::xsputn(const char* text, std::streamsize size) {
  Take(absl::string_view(text, size));
  return size;
}

void LogStream::Take(absl::string_view text) {
  line_.append(text.data(), text.size());
  for (size_t end; (end = line_.find('\n')) != std::string::npos; line_.erase(0, end + 1)) {
    WriteToStandardError(absl::string_view(line_).substr(0, end + 1));
    ring_->Add(absl::string_view(line_).substr(0, end));
  }
}

}  // namespace longhaul
