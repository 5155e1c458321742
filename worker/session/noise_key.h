// The key of a contribution's stochastic rounding. Each contribution of a pool has one key, the
// same for every rank, attempt and incarnation, and in another job with the same seed.
#pragma once

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/random.h"
#include "common/io/digest.h"

namespace longhaul::session {

inline uint64_t NoiseKeyOf(uint64_t seed, absl::string_view pool, int fragment, int64_t version) {
  return Philox64(DigestOf(absl::StrCat(seed, "/", pool)).low, fragment, version);
}

}  // namespace longhaul::session
