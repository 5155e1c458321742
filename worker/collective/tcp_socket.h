// The few socket calls that the rendezvous needs, on numeric addresses. Linux.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

// Owns a file descriptor; -1 is none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();
  int get() const { return fd_; }

 private:
  int fd_;
};

// All sockets are non-blocking and close-on-exec.

// INVALID_ARGUMENT: the address is not numeric. UNAVAILABLE: the system refused. Port 0: any free
// one.
absl::StatusOr<FileDescriptor> ListenOn(const std::string& address, uint16_t port);
absl::StatusOr<uint16_t> LocalPort(int fd);

// Starts to connect; the socket becomes writable when that has ended, and ConnectionError tells
// how.
absl::StatusOr<FileDescriptor> StartConnecting(const std::string& address, uint16_t port);
absl::Status ConnectionError(int fd);

// Appends what can be read now, at most about `bytes_max` in all. True at the end of the stream.
absl::StatusOr<bool> ReadAvailable(int fd, size_t bytes_max, std::string* bytes);

// Sends what fits now from `offset` on and returns the new offset. Never raises SIGPIPE.
absl::StatusOr<size_t> WriteAvailable(int fd, absl::string_view bytes, size_t offset);

// UNAVAILABLE with errno's text.
absl::Status SystemError(absl::string_view what);

}  // namespace longhaul
