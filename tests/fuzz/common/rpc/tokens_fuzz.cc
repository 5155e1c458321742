// What callers say who they are, and the file that knows them.
//   input: string Authorization header | file of tokens
#include "common/base/names.h"
#include "common/rpc/secret_file.h"
#include "common/rpc/user_tokens.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz::tokens_fuzz {

std::vector<Seed> Seeds() {
  const std::string digest(64, 'a');
  return {{"good", FuzzWriter()
                       .String("Bearer 0123456789abcdef")
                       .Bytes("# who\nann viewer sha256:" + digest + "\n")
                       .Take()},
          {"nobody", FuzzWriter().String("").Bytes("# nobody\n").Take()},
          {"bad", FuzzWriter().String("Basic YTpi").Bytes("ann root sha256:" + digest).Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const absl::string_view header = input.String(), file = input.Rest();
  const absl::string_view token = BearerToken(header);
  LH_CHECK(token.size() <= static_cast<size_t>(kTokenBytesMax), "tokens are bounded");
  const auto tokens = ParseTokens(file);
  CheckDocumented(tokens.status(), {absl::StatusCode::kInvalidArgument});
  if (!tokens.ok()) return 0;
  for (const UserToken& one : *tokens) LH_CHECK(IsName(one.user.name), "names are safe");
  return 0;
}

}  // namespace longhaul::fuzz::tokens_fuzz
