#include "common/http/pages.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace longhaul {

std::string PageRequest::Parameter(const std::string& name) const {
  const auto found = parameters.find(name);
  return found == parameters.end() ? "" : found->second;
}

void Pages::Add(const std::string& path, Make make) {
  LH_CHECK(absl::StartsWith(path, "/"), path.c_str());
  LH_CHECK(pages_.emplace(path, Entry{std::move(make)}).second, path.c_str());
}

void Pages::AddOpen(const std::string& path, Make make) {
  Add(path, std::move(make));
  pages_[path].open = true;
}

void Pages::AddProbe(const std::string& path, Make make) {
  AddOpen(path, std::move(make));
  pages_[path].probe = true;
}

void AddProbes(Pages& pages, std::function<absl::Status()> ready) {
  pages.AddProbe("/healthz", [](const PageRequest&) { return Page{.body = "ok\n"}; });
  pages.AddProbe("/readyz", [ready = std::move(ready)](const PageRequest&) -> Page {
    const absl::Status status = ready();
    if (status.ok()) return {.body = "ready\n"};
    return {.code = 503, .body = absl::StrCat("not ready: ", status.message(), "\n")};
  });
}

}  // namespace longhaul
