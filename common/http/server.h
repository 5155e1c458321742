// An HTTP server for operators. It answers GET and HEAD of the pages that it is given, and nothing
// else; who asks for another path is told which pages there are, also without a token.
// Browsers may load only content of the same server into a page.
//
// libmicrohttpd has all connections on one thread, which makes the pages of probes itself; a few
// threads make the other pages, which may wait. So a probe is answered at once, however many
// clients send nothing, do not read, or ask for pages.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/http/identity.h"
#include "common/http/pages.h"

namespace longhaul {

// Keeps at most 1,000 connections: when one more comes, the oldest is closed. At most 64 wait for
// pages; others get 503. A client is disconnected if it sends nothing for a second before its
// request is complete, or takes nothing of its answer for 10 seconds.
//
// Without a gate and at an address that only this machine can reach, a request must name it as its
// host (localhost, or a number): else a web page of elsewhere, whose name was made to mean this
// machine, could read the pages in the browser of somebody who works here (DNS rebinding).
//
// Thread-safe. The destructor stops it and waits for pages that are being made.
class HttpServer {
 public:
  struct Options {
    // Numeric. An IPv6 address has no brackets here.
    std::string address = "127.0.0.1";
    // 0: any free one; ask port().
    int port = 0;
    int connections_max = 1000;
    // Not empty: the server uses TLS, and shows this. Called on its thread for each connection.
    LoadedIdentity::Source identity;
  };
  // Parses "HOST:PORT", where HOST is an address or localhost. INVALID_ARGUMENT says what is wrong.
  static absl::StatusOr<Options> OptionsFrom(const std::string& listen);

  // INVALID_ARGUMENT: no address, or a port out of range. UNAVAILABLE: the address cannot be bound.
  // UNIMPLEMENTED: TLS is wanted and this machine's libmicrohttpd has none.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const Options& options, Pages pages);
  ~HttpServer();

  int port() const;
  // HOST:PORT.
  std::string address() const;

 private:
  class Impl;
  HttpServer(std::unique_ptr<Impl> impl, std::string host);

  const std::unique_ptr<Impl> impl_;
  const std::string host_;
};

}  // namespace longhaul
