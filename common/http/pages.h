// The pages that a program serves over HTTP: who has something to show adds a page, the server
// (server.h) knows none by itself.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace longhaul {

struct PageRequest {
  std::string query;  // What follows '?', as it came.

  // A parameter of the query, decoded; empty if it is not there.
  std::string Parameter(const std::string& name) const;
};

struct Page {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// A value; not thread-safe. What it refers to outlives the server that gets it.
class Pages {
 public:
  // Called from the server's threads, several at one time; must not block for long.
  using Make = std::function<Page(const PageRequest&)>;

  // What the value of a request's Authorization header (empty: there is none) may see. Not OK: the
  // answer is 401 with the message. Called as a Make.
  using Gate = std::function<absl::Status(absl::string_view authorization)>;

  // Answers GET of exactly this path, to whoever passes the gate. A path has one page (LH_CHECK).
  void Add(const std::string& path, Make make);
  // Likewise, to everybody: for what tells nothing.
  void AddOpen(const std::string& path, Make make);
  // Before it is set, everybody passes.
  void SetGate(Gate gate) { gate_ = std::move(gate); }

  struct Entry {
    Make make;
    bool open = false;
    Page operator()(const PageRequest& request) const { return make(request); }
  };
  const std::map<std::string, Entry>& all() const { return pages_; }
  const Gate& gate() const { return gate_; }

 private:
  std::map<std::string, Entry> pages_;
  Gate gate_;
};

// What an orchestrator asks a program, open to everybody:
//   /healthz  200 while the process can answer: restart it if not
//   /readyz   200 if `ready` is OK, else 503 with the reason: send it no work
void AddProbes(Pages& pages, std::function<absl::Status()> ready);

}  // namespace longhaul
