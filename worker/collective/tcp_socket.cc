#include "worker/collective/tcp_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

using AddressInfo = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

absl::StatusOr<AddressInfo> Resolve(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* info = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &info);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is not a numeric address: ", gai_strerror(error)));
  }
  return AddressInfo(info, freeaddrinfo);
}

absl::StatusOr<FileDescriptor> MakeSocket(int family) {
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return SystemError("socket");
  return socket;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

absl::StatusOr<FileDescriptor> ListenOn(const std::string& address, uint16_t port) {
  LH_ASSIGN_OR_RETURN(const AddressInfo info, Resolve(address, port));
  LH_ASSIGN_OR_RETURN(FileDescriptor socket, MakeSocket(info->ai_family));
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(socket.get(), info->ai_addr, info->ai_addrlen) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return SystemError(absl::StrCat("listening on ", address, " port ", port));
  }
  return socket;
}

absl::StatusOr<uint16_t> LocalPort(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return SystemError("getsockname");
  const bool is_v6 = address.ss_family == AF_INET6;
  return ntohs(is_v6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                     : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

absl::StatusOr<FileDescriptor> StartConnecting(const std::string& address, uint16_t port) {
  LH_ASSIGN_OR_RETURN(const AddressInfo info, Resolve(address, port));
  LH_ASSIGN_OR_RETURN(FileDescriptor socket, MakeSocket(info->ai_family));
  if (connect(socket.get(), info->ai_addr, info->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return SystemError(absl::StrCat("connecting to ", address, " port ", port));
  }
  return socket;
}

absl::Status ConnectionError(int fd) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return SystemError("getsockopt");
  if (error == 0) return absl::OkStatus();
  errno = error;
  return SystemError("connecting");
}

absl::StatusOr<bool> ReadAvailable(int fd, size_t bytes_max, std::string* bytes) {
  char buffer[16 << 10];
  while (bytes->size() < bytes_max) {
    const ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
    if (count == 0) return true;
    if (count > 0) {
      bytes->append(buffer, count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      return SystemError("recv");
    }
  }
  return false;
}

absl::StatusOr<size_t> WriteAvailable(int fd, absl::string_view bytes, size_t offset) {
  while (offset < bytes.size()) {
    const ssize_t count = send(fd, bytes.data() + offset, bytes.size() - offset, MSG_NOSIGNAL);
    if (count >= 0) {
      offset += count;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      return SystemError("send");
    }
  }
  return offset;
}

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace longhaul
