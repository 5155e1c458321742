// An HTTP server for operators: GET of the pages that it is given, nothing else. A page's browser
// may load what the same server has and nothing from elsewhere.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/http/pages.h"

namespace longhaul {

// Serves 64 connections at one time; one whose request is not whole after a second is closed.
// Thread-safe. Stops, and waits for requests in flight, when destroyed.
class HttpServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // An IPv4 address, or IPv6 in brackets.
    int port = 0;                       // 0: any that is free; ask port().
  };
  // Of "HOST:PORT", where HOST is an address or localhost. INVALID_ARGUMENT, in words.
  static absl::StatusOr<Options> OptionsFrom(const std::string& listen);

  // INVALID_ARGUMENT: no address, or a port out of range. UNAVAILABLE: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const Options& options, Pages pages);
  ~HttpServer();

  int port() const { return port_; }
  std::string address() const;  // HOST:PORT.

 private:
  struct Http;  // The handlers and civetweb's server.
  HttpServer(std::unique_ptr<Http> http, int port);

  std::unique_ptr<Http> http_;
  const int port_;
};

}  // namespace longhaul
