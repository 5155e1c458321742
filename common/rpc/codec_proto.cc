#include "common/rpc/codec_proto.h"

namespace longhaul {

CodecOptions CodecOptionsOf(const v1::CodecSpec& spec) {
  return {.kind = static_cast<CodecKind>(spec.codec()),
          .search_scale = spec.search_scale(),
          .stochastic = spec.stochastic_rounding(),
          .rms_scale = spec.rms_scale(),
          .feedback_decay = static_cast<float>(spec.feedback_decay())};
}

}  // namespace longhaul
