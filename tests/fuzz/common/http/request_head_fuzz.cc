// The head of an HTTP request.
//   input: what a client sends
#include "common/base/check.h"
#include "common/http/request_head.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz {

std::vector<Seed> Seeds() {
  return {{"get",
           "GET /api/v1/job?name=a%20b HTTP/1.1\r\nHost: localhost:7071\r\n"
           "Authorization: Bearer 0123456789abcdef\r\n\r\nrest"},
          {"twice", "HEAD / HTTP/1.0\nhost: a\nHost: b\n\n"},
          {"none", "POST\n\r\n"}};
}

}  // namespace longhaul::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;  // NOLINT: a file of one function
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t head = HeadBytes(text);
  LH_CHECK(head <= size, "a head is part of the text");
  const auto request = ParseRequestHead(text.substr(0, head));
  fuzz::CheckDocumented(request.status(), {absl::StatusCode::kInvalidArgument});
  if (!request.ok()) return 0;
  for (const std::string* one : {&request->method, &request->path, &request->query, &request->host,
                                 &request->authorization}) {
    LH_CHECK(one->find('\n') == std::string::npos, "what is read of a line is within the line");
  }
  return 0;
}
