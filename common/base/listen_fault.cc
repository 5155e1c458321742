#include "common/base/listen_fault.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

// The error number of bind or listen. 0: it works now.
int TryToListen(const addrinfo& address) {
  const int socket_number =
      socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
  if (socket_number < 0) return errno;
  // As servers do: a connection that has just ended does not keep its port.
  const int on = 1;
  (void)setsockopt(socket_number, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool works = bind(socket_number, address.ai_addr, address.ai_addrlen) == 0 &&
                     listen(socket_number, 1) == 0;
  const int error = works ? 0 : errno;
  close(socket_number);
  return error;
}

std::string WhatToDo(int error) {
  switch (error) {
    case EADDRINUSE:
      return "another program listens there; end it, or choose another port";
    case EADDRNOTAVAIL:
      return "this machine does not have that address; choose one of its own, or 0.0.0.0 for all";
    case EACCES:
      return "ports below 1024 need a privilege; choose another port";
    default:
      return "choose another address";
  }
}

}  // namespace

absl::Status ListenFault(const HostPort& address) {
  const std::string cannot =
      absl::StrCat("cannot listen on ", HostPortText(address.host, address.port), ": ");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int unknown =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (unknown != 0) {
    return absl::UnavailableError(
        absl::StrCat(cannot, gai_strerror(unknown), "; name an address of this machine"));
  }
  int error = 0;
  for (const addrinfo* one = found; one != nullptr && error == 0; one = one->ai_next)
    error = TryToListen(*one);
  freeaddrinfo(found);
  if (error == 0)
    return absl::UnavailableError(absl::StrCat(cannot, "nothing prevents it now; try again"));
  return absl::UnavailableError(
      absl::StrCat(cannot, std::strerror(error), " (", WhatToDo(error), ")"));
}

}  // namespace longhaul
