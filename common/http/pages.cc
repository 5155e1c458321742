#include "common/http/pages.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"

namespace longhaul {
namespace {

std::string Decoded(absl::string_view text) {
  std::string decoded;
  for (; !text.empty(); text.remove_prefix(1)) {
    if (text.size() >= 3 && text[0] == '%' && absl::ascii_isxdigit(text[1]) &&
        absl::ascii_isxdigit(text[2])) {
      decoded += absl::HexStringToBytes(text.substr(1, 2));
      text.remove_prefix(2);
    } else {
      decoded += text[0] == '+' ? ' ' : text[0];
    }
  }
  return decoded;
}

}  // namespace

std::string PageRequest::Parameter(const std::string& name) const {
  for (const absl::string_view part : absl::StrSplit(query, '&')) {
    const std::pair<absl::string_view, absl::string_view> parameter =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (parameter.first == name) return Decoded(parameter.second);
  }
  return "";
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
