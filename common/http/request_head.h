// The head of an HTTP request: its first line and its headers. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

struct RequestHead {
  std::string method, path;
  // The text after '?', not decoded.
  std::string query;
  // Headers; empty: there is none.
  std::string host, authorization;
};

// The size of the head that the text begins with, with the empty line that ends it. 0: its end has
// not come.
size_t HeadBytes(absl::string_view text);

// `head` as HeadBytes found it. INVALID_ARGUMENT: no HTTP/1 request, or a header that is read here
// comes twice.
absl::StatusOr<RequestHead> ParseRequestHead(absl::string_view head);

}  // namespace longhaul
