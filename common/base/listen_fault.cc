#include "common/base/listen_fault.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/resolved_address.h"

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
      return "another program listens on that port; stop it or choose another port";
    case EADDRNOTAVAIL:
      return "this machine does not have that address; choose one of its own, or 0.0.0.0 for all";
    case EACCES:
      return "ports below 1024 need privileges; choose another port";
    default:
      return "choose another address";
  }
}

}  // namespace

absl::Status ListenFault(const HostPort& address) {
  const std::string cannot =
      absl::StrCat("cannot listen on ", HostPortText(address.host, address.port), ": ");
  const absl::StatusOr<ResolvedAddress> found = Resolve(address);
  if (!found.ok()) {
    return absl::UnavailableError(
        absl::StrCat(cannot, found.status().message(), "; name an address of this machine"));
  }
  int error = 0;
  for (const addrinfo* one = found->get(); one != nullptr && error == 0; one = one->ai_next)
    error = TryToListen(*one);
  if (error == 0)
    return absl::UnavailableError(absl::StrCat(cannot, "the address is free now; try again"));
  return absl::UnavailableError(
      absl::StrCat(cannot, std::strerror(error), " (", WhatToDo(error), ")"));
}

}  // namespace longhaul
