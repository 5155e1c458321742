// The key of a contribution's stochastic rounding. Each contribution of a pool has one key, the
// same for every rank, attempt and incarnation.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/io/digest.h"

namespace longhaul::session {

inline uint64_t NoiseKeyOf(const std::string& job, const std::string& pool, int fragment,
                           int64_t version) {
  const auto words = Philox(DigestOf(absl::StrCat(job, "/", pool)).low, fragment, version);
  return uint64_t{words[1]} << 32 | words[0];
}

}  // namespace longhaul::session
