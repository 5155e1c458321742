#include "common/http/pages.h"

#include <string>
#include <utility>

#include "CivetServer.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace longhaul {

std::string PageRequest::Parameter(const std::string& name) const {
  std::string value;
  CivetServer::getParam(query.data(), query.size(), name.c_str(), value);
  return value;
}

void Pages::Add(const std::string& path, Make make) {
  LH_CHECK(absl::StartsWith(path, "/"), path.c_str());
  LH_CHECK(pages_.emplace(path, Entry{std::move(make)}).second, path.c_str());
}

void Pages::AddOpen(const std::string& path, Make make) {
  Add(path, std::move(make));
  pages_[path].open = true;
}

void AddProbes(Pages& pages, std::function<absl::Status()> ready) {
  pages.AddOpen("/healthz", [](const PageRequest&) { return Page{.body = "ok\n"}; });
  pages.AddOpen("/readyz", [ready = std::move(ready)](const PageRequest&) -> Page {
    const absl::Status status = ready();
    if (status.ok()) return {.body = "ready\n"};
    return {.code = 503, .body = absl::StrCat("not ready: ", status.message(), "\n")};
  });
}

}  // namespace longhaul
