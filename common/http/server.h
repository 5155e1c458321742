// An HTTP server for operators. It answers GET of the pages that it is given, and nothing else; who
// asks for another path is told which pages there are, also without a token.
// Browsers may load only content of the same server into a page.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/http/pages.h"

namespace longhaul {

// Serves 64 connections at one time. A connection is closed if its request is not complete after a
// second. Thread-safe. The destructor stops it and waits for requests in progress.
class HttpServer {
 public:
  struct Options {
    // An IPv4 address; where civetweb was built with IPv6 (not Debian's), also one of that, in
    // brackets.
    std::string address = "127.0.0.1";
    // 0: any free one; ask port().
    int port = 0;
  };
  // Parses "HOST:PORT", where HOST is an address or localhost. INVALID_ARGUMENT says what is wrong.
  static absl::StatusOr<Options> OptionsFrom(const std::string& listen);

  // INVALID_ARGUMENT: no address, or a port out of range. UNAVAILABLE: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const Options& options, Pages pages);
  ~HttpServer();

  int port() const { return port_; }
  // HOST:PORT.
  std::string address() const;

 private:
  // The handlers and civetweb's server.
  struct Http;
  HttpServer(std::unique_ptr<Http> http, int port);

  std::unique_ptr<Http> http_;
  const int port_;
};

}  // namespace longhaul
