#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/outer_momentum.h"
#include "common/config/checkpoint_name.h"
#include "common/config/checks.h"
#include "common/config/validate.h"
#include "common/io/sha256.h"

namespace longhaul {
namespace {

constexpr int64_t kPeriodMax = 1'000'000'000;
constexpr double kOuterLearningRateMax = 10;
constexpr int64_t kCyclesMax = 1'000'000'000;
constexpr int64_t kCheckpointsMax = 1000;
constexpr int64_t kEvaluationBatchesMax = 100'000;
constexpr int64_t kGuardSecondsMax = 1'000'000'000;
constexpr int64_t kGuardRoundsMax = 64;
// A coordinator gives leases to at most so many pools.
constexpr int kPoolsMax = 4096;
constexpr int kGraceSecondsMax = 3600;

// Reports an option that the codec does not have, or that contradicts another one.
void ValidateCodec(const std::string& field, const v1::CodecSpec& spec, ViolationList& violations) {
  const v1::Codec codec = spec.codec();
  const bool half_byte = codec == v1::E3M0 || codec == v1::INT4;
  const auto refuse = [&](const char* option, const std::string& why) {
    violations.Invalid(absl::StrCat(field, ".", option), why);
  };
  if (spec.search_scale() && !half_byte)
    refuse("search_scale", "found true, expected codec e3m0 or int4 with it");
  if (spec.stochastic_rounding() && !half_byte && codec != v1::INT8)
    refuse("stochastic_rounding", "found true, expected codec e3m0, int8 or int4 with it");
  if (spec.stochastic_rounding() && spec.search_scale())
    refuse("stochastic_rounding", "found true, expected no search_scale with it");
  if (spec.rms_scale() && codec != v1::SIGN1)
    refuse("rms_scale", "found true, expected codec sign1 with it");
  RequireNumber(violations, absl::StrCat(field, ".feedback_decay"), spec.feedback_decay(),
                {.low = kFloatMin, .high = 1});
  if (spec.feedback_decay() != 1 && !spec.error_feedback())
    refuse("feedback_decay",
           absl::StrFormat("found %g, expected error_feedback with it: nothing is fed back",
                           spec.feedback_decay()));
}

// Reports what only the uplink allows.
void ValidateDownlink(const v1::CodecSpec& down, ViolationList& violations) {
  if (!down.error_feedback()) {
    violations.Invalid("sync.down.error_feedback",
                       "found false, expected true: without it the pools drift away from the "
                       "coordinator");
  }
  if (down.codec() == v1::TOPK2) {
    violations.Invalid("sync.down.codec",
                       "found topk2, expected a codec that ranks can cut at any block: use e3m0, "
                       "int4 or sign1, and topk2 for the uplink");
  }
}

void ValidateMode(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::QuorumSpec& quorum = spec.sync().quorum();
  if (spec.sync().mode() != v1::QUORUM) {
    if (spec.sync().has_quorum())
      violations.Invalid("sync.quorum", "means nothing without sync.mode: quorum");
    return;
  }
  // If pools.min is impossible itself, only that mistake is reported.
  const int most = spec.pools().min() >= 1 ? spec.pools().min() : kPoolsMax;
  RequireInteger(violations, "sync.quorum.pools", quorum.pools(), 1, most,
                 "at most pools.min: a job that starts with fewer pools would wait");
  RequireInteger(violations, "sync.quorum.grace_seconds", quorum.grace_seconds(), 0,
                 kGraceSecondsMax);
  if (spec.inner().onebit_adam().local_step_scaler() != 0) {
    violations.Invalid("inner.onebit_adam.local_step_scaler",
                       "found local steps, expected 0 with sync.mode: quorum: any step may be the "
                       "last one before a contribution");
  }
}

void ValidateSync(const v1::SyncSpec& sync, ViolationList& violations) {
  RequireInteger(violations, "sync.h", sync.h(), 1, kPeriodMax);
  if (sync.h() >= 1 && (sync.tau() < 0 || sync.tau() >= sync.h())) {
    violations.Invalid("sync.tau", absl::StrFormat("found %d, expected 0 to %d, below h",
                                                   sync.tau(), sync.h() - 1));
  }
  RequireNumber(violations, "sync.alpha", sync.alpha(), {.low = 0, .high = 1});
  RequireNumber(violations, "sync.outer.lr", sync.outer().lr(),
                {.low = 0, .high = kOuterLearningRateMax, .open_low = true});
  RequireNumber(violations, "sync.outer.momentum", sync.outer().momentum(),
                {.low = 0, .high = kOuterMomentumMax});
  ValidateCodec("sync.up", sync.up(), violations);
  ValidateCodec("sync.down", sync.down(), violations);
  ValidateDownlink(sync.down(), violations);
}

void ValidatePools(const v1::PoolsSpec& pools, ViolationList& violations) {
  RequireInteger(violations, "pools.min", pools.min(), 1, kPoolsMax, "a job needs a pool");
  // If pools.min is impossible itself, the whole interval is allowed here, so that only one mistake
  // is reported.
  const int low = pools.min() > kPoolsMax ? 1 : std::max(1, pools.min());
  RequireInteger(violations, "pools.max", pools.max(), low, kPoolsMax, "at least pools.min");
  if (pools.names_size() > kPoolsMax) {
    violations.Invalid("pools.names", absl::StrFormat("found %d names, expected at most %d",
                                                      pools.names_size(), kPoolsMax));
    return;
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

// Checks JOB or JOB@STEP, where JOB is a name or an id.
void ValidateInit(const v1::InitSpec& init, ViolationList& violations) {
  if (init.has_folder()) RequirePath(violations, "init.folder", init.folder());
  if (init.has_upload() && !IsSha256Hex(init.upload())) {
    violations.Invalid("init.upload",
                       absl::StrCat("found '", init.upload().substr(0, 128),
                                    "', expected the 64 hexadecimal digits of an "
                                    "upload; `longhaul submit --from DIR` makes one"));
  }
  if (!init.has_checkpoint()) return;
  const bool valid = ParseCheckpointName(init.checkpoint()).has_value();
  if (valid) return;
  violations.Invalid("init.checkpoint",
                     absl::StrCat("found '", init.checkpoint().substr(0, 128),
                                  "', expected JOB or JOB@STEP, for example quickstart@900"));
}

void ValidateOuterGuard(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::GuardSpec& guard = spec.guard();
  if (guard.outer() != v1::LEAVE_OUT) {
    for (const auto& [field, given] : {std::pair("guard.outer_norm", guard.outer_norm() != 0),
                                       {"guard.outer_cosine", guard.outer_cosine() != 0},
                                       {"guard.outer_rounds", guard.outer_rounds() != 0}})
      if (given) violations.Invalid(field, "means nothing without guard.outer: leave_out");
    return;
  }
  if (spec.pools().max() == 1) {
    violations.Invalid("guard.outer",
                       "found leave_out, expected take_all with pools.max of 1: there are no other "
                       "contributions");
  }
  RequireNumber(violations, "guard.outer_norm", guard.outer_norm(), {.low = 2, .high = 1e6});
  RequireInteger(violations, "guard.outer_rounds", guard.outer_rounds(), 1, kGuardRoundsMax);
  RequireNumber(violations, "guard.outer_cosine", guard.outer_cosine(), {.low = -1, .high = 1},
                "negative: never");
  if (guard.outer_cosine() > 0 && spec.pools().max() == 2) {
    violations.Invalid("guard.outer_cosine",
                       absl::StrFormat("found %g, expected -1 with pools.max of 2: of two "
                                       "contributions none says which one is wrong",
                                       guard.outer_cosine()));
  }
}

}  // namespace

void ValidateExchange(const v1::JobSpec& spec, ViolationList& violations) {
  ValidateMode(spec, violations);
  ValidateSync(spec.sync(), violations);
  ValidatePools(spec.pools(), violations);
  RequireInteger(violations, "checkpoint.every_cycles", spec.checkpoint().every_cycles(),
                 -kCyclesMax, kCyclesMax, "negative: only at the end");
  RequireInteger(violations, "checkpoint.keep", spec.checkpoint().keep(), 1, kCheckpointsMax);
  RequireInteger(violations, "evaluation.every_cycles", spec.evaluation().every_cycles(),
                 -kCyclesMax, kCyclesMax, "negative: only at the end");
  RequireInteger(violations, "evaluation.pools_every_cycles",
                 spec.evaluation().pools_every_cycles(), -kCyclesMax, kCyclesMax,
                 "negative: never");
  RequireInteger(violations, "evaluation.batches", spec.evaluation().batches(), 1,
                 kEvaluationBatchesMax);
  if (spec.evaluation().beside_training() && spec.train().device() == v1::CUDA) {
    violations.NotBuilt("evaluation.beside_training",
                        "evaluation alongside training is not built yet for device cuda",
                        "omit it: pools take turns to evaluate, and do not train meanwhile");
  }
  ValidateInit(spec.init(), violations);
  RequireInteger(violations, "guard.after_seconds", spec.guard().after_seconds(), 1,
                 kGuardSecondsMax);
  ValidateOuterGuard(spec, violations);
}

}  // namespace longhaul
