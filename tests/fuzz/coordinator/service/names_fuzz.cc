// The names that pools choose.
//   input: string pool | incarnation
#include <algorithm>

#include "coordinator/service/names.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz::names_fuzz {
namespace {

// What names are made of: safe in paths, labels of metrics and log lines.
bool IsSafe(absl::string_view name) {
  return !name.empty() && name.size() <= 64 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == absl::string_view::npos;
}

}  // namespace

std::vector<Seed> Seeds() {
  return {{"good", FuzzWriter().String("oslo-2").Bytes("0123456789abcdef").Take()},
          {"bad", FuzzWriter().String("Oslo/..").Bytes("0123").Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const absl::string_view pool = input.String(), incarnation = input.Rest();
  const absl::Status status = coordinator::CheckPool(pool, incarnation);
  CheckDocumented(status, {absl::StatusCode::kInvalidArgument});
  const bool good = IsName(pool) && IsIncarnation(incarnation);
  LH_CHECK(status.ok() == good, "one rule for names");
  if (good) LH_CHECK(IsSafe(pool) && IsSafe(incarnation), "names are safe");
  return 0;
}

}  // namespace longhaul::fuzz::names_fuzz
