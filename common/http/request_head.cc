#include "common/http/request_head.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace longhaul {
namespace {

absl::Status NoRequest(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("that is no HTTP request: ", why));
}

}  // namespace

size_t HeadBytes(absl::string_view text) {
  for (size_t end = text.find('\n'); end != absl::string_view::npos;
       end = text.find('\n', end + 1)) {
    const absl::string_view rest = text.substr(end + 1);
    if (absl::StartsWith(rest, "\n")) return end + 2;
    if (absl::StartsWith(rest, "\r\n")) return end + 3;
  }
  return 0;
}

absl::StatusOr<RequestHead> ParseRequestHead(absl::string_view head) {
  std::vector<absl::string_view> lines = absl::StrSplit(head, '\n');
  for (absl::string_view& line : lines) absl::ConsumeSuffix(&line, "\r");
  const std::vector<absl::string_view> words = absl::StrSplit(lines[0], ' ');
  if (words.size() != 3 || words[0].empty() || !absl::StartsWith(words[2], "HTTP/1."))
    return NoRequest("its first line is not METHOD PATH HTTP/1.1");
  const std::pair<absl::string_view, absl::string_view> target =
      absl::StrSplit(words[1], absl::MaxSplits('?', 1));
  RequestHead request{.method = std::string(words[0]),
                      .path = std::string(target.first),
                      .query = std::string(target.second)};
  for (size_t i = 1; i < lines.size() && !lines[i].empty(); ++i) {
    const std::pair<absl::string_view, absl::string_view> header =
        absl::StrSplit(lines[i], absl::MaxSplits(':', 1));
    std::string* const kept = absl::EqualsIgnoreCase(header.first, "host") ? &request.host
                              : absl::EqualsIgnoreCase(header.first, "authorization")
                                  ? &request.authorization
                                  : nullptr;
    if (kept == nullptr) continue;
    if (!kept->empty()) return NoRequest(absl::StrCat("it has two headers ", header.first));
    *kept = std::string(absl::StripAsciiWhitespace(header.second));
  }
  return request;
}

}  // namespace longhaul
