#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/checks.h"
#include "common/config/validate.h"

namespace longhaul {
namespace {

constexpr int64_t kPeriodMax = 1'000'000'000;
constexpr double kLearningRateMax = 10;
constexpr int32_t kIntMax = std::numeric_limits<int32_t>::max();

void ValidateCodec(const std::string& field, v1::Codec codec, ViolationList& violations) {
  if (codec == v1::FP32 || codec == v1::BF16 || codec == v1::E3M0) return;
  if (!v1::Codec_IsValid(codec)) return;  // RequireKnown reports it.
  violations.NotBuilt(
      field, absl::StrCat(absl::AsciiStrToLower(v1::Codec_Name(codec)), " is not built yet"),
      "use e3m0, bf16 or fp32");
}

void ValidateMode(const v1::SyncSpec& sync, ViolationList& violations) {
  const std::string hint = "use lockstep: every live pool contributes to every round";
  if (sync.mode() == v1::QUORUM) violations.NotBuilt("sync.mode", "quorum is not built yet", hint);
  if (sync.has_quorum()) violations.NotBuilt("sync.quorum", "quorum is not built yet", hint);
}

void ValidateSync(const v1::SyncSpec& sync, ViolationList& violations) {
  ValidateMode(sync, violations);
  RequireInteger(violations, "sync.h", sync.h(), 1, kPeriodMax);
  if (sync.h() >= 1 && (sync.tau() < 0 || sync.tau() >= sync.h())) {
    violations.Invalid("sync.tau", absl::StrFormat("found %d, expected 0 to %d, below h",
                                                   sync.tau(), sync.h() - 1));
  }
  RequireNumber(violations, "sync.alpha", sync.alpha(), {.low = 0, .high = 1});
  RequireNumber(violations, "sync.outer.lr", sync.outer().lr(),
                {.low = 0, .high = kLearningRateMax, .open_low = true});
  RequireNumber(violations, "sync.outer.momentum", sync.outer().momentum(),
                {.low = 0, .high = 1, .open_high = true});
  ValidateCodec("sync.up.codec", sync.up().codec(), violations);
  ValidateCodec("sync.down.codec", sync.down().codec(), violations);
}

void ValidatePools(const v1::PoolsSpec& pools, ViolationList& violations) {
  RequireInteger(violations, "pools.min", pools.min(), 1, kIntMax, "a job needs a pool");
  if (pools.max() < std::max(1, pools.min())) {
    violations.Invalid("pools.max", absl::StrFormat("found %d, expected at least pools.min (%d)",
                                                    pools.max(), pools.min()));
  }
  std::set<std::string> seen;
  for (int i = 0; i < pools.names_size(); ++i) {
    const std::string field = absl::StrCat("pools.names[", i, "]");
    RequireName(violations, field, pools.names(i));
    if (!seen.insert(pools.names(i)).second) {
      violations.Invalid(field, absl::StrCat("'", pools.names(i), "' is given twice"));
    }
  }
  if (pools.names_size() > 0 && pools.names_size() < pools.min()) {
    violations.Invalid("pools.names",
                       absl::StrFormat("found %d names, expected at least pools.min (%d)",
                                       pools.names_size(), pools.min()));
  }
}

}  // namespace

void ValidateExchange(const v1::JobSpec& spec, ViolationList& violations) {
  ValidateSync(spec.sync(), violations);
  ValidatePools(spec.pools(), violations);
  RequireInteger(violations, "checkpoint.every_cycles", spec.checkpoint().every_cycles(), 0,
                 kIntMax, "0: only at the end");
  RequireInteger(violations, "checkpoint.keep", spec.checkpoint().keep(), 1, kIntMax);
  RequireInteger(violations, "evaluation.batches", spec.evaluation().batches(), 1, kIntMax);
}

}  // namespace longhaul
