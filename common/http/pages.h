// The pages that a program serves over HTTP. Each part of the program adds its own. The server
// (server.h) has none itself.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace longhaul {

struct PageRequest {
  // Of the query, decoded.
  std::map<std::string, std::string> parameters;

  // Empty if it is missing.
  std::string Parameter(const std::string& name) const;
};

struct Page {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// A value; not thread-safe. Everything that it refers to outlives the server that gets it.
class Pages {
 public:
  // Called from the server's threads, several at one time. Must not block for long.
  using Make = std::function<Page(const PageRequest&)>;

  // Decides whether a request may see the pages. It gets the value of the request's Authorization
  // header, or an empty text. Not OK: the answer is 401 with the message. Called in the same way as
  // a Make.
  using Gate = std::function<absl::Status(absl::string_view authorization)>;

  // Answers GET of exactly this path, if the request passes the gate. A path has one page
  // (LH_CHECK).
  void Add(const std::string& path, Make make);
  // Answers every request without the gate. For pages without anything confidential.
  void AddOpen(const std::string& path, Make make);
  // As AddOpen, for pages that are made at once, whatever others do: on the thread that has all
  // connections. `make` must not wait for anything.
  void AddProbe(const std::string& path, Make make);
  // Until this is called, every request passes.
  void SetGate(Gate gate) { gate_ = std::move(gate); }

  struct Entry {
    Make make;
    bool open = false, probe = false;
    Page operator()(const PageRequest& request) const { return make(request); }
  };
  const std::map<std::string, Entry>& all() const { return pages_; }
  const Gate& gate() const { return gate_; }

 private:
  std::map<std::string, Entry> pages_;
  Gate gate_;
};

// The pages with which an orchestrator checks a program. They need no token.
//   /healthz  200 while the process can answer: restart it if not
//   /readyz   200 if `ready` is OK, else 503 with the reason: send it no work
// `ready` must not wait for anything.
void AddProbes(Pages& pages, std::function<absl::Status()> ready);

}  // namespace longhaul
