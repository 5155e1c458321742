#include <memory>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/codec/codec.h"
#include "common/codec/dense_codec.h"
#include "common/codec/dense_format.h"
#include "common/codec/topk2_codec.h"

namespace longhaul {
namespace {

absl::Status OptionError(const char* option, const char* kinds, CodecKind kind) {
  return absl::InvalidArgumentError(
      absl::StrFormat("%s is an option of %s, not of %s", option, kinds, CodecName(kind)));
}

absl::Status CheckOptions(const CodecOptions& options) {
  const CodecKind kind = options.kind;
  const bool half_byte = kind == CodecKind::kE3m0 || kind == CodecKind::kInt4;
  if (options.search_scale && !half_byte) return OptionError("search_scale", "e3m0 and int4", kind);
  if (options.stochastic && !half_byte && kind != CodecKind::kInt8)
    return OptionError("stochastic rounding", "e3m0, int8 and int4", kind);
  if (options.stochastic && options.search_scale)
    return absl::InvalidArgumentError(
        "search_scale does not go with stochastic rounding: the least "
        "error is that of rounding to nearest");
  if (options.rms_scale && kind != CodecKind::kSign1)
    return OptionError("rms_scale", "sign1", kind);
  if (!(options.feedback_decay > 0 && options.feedback_decay <= 1))
    return absl::InvalidArgumentError(
        absl::StrFormat("feedback_decay %g is not within (0, 1]", options.feedback_decay));
  return absl::OkStatus();
}

}  // namespace

CodecKind IntegerCodec(int bits) {
  for (const CodecRow& codec : kCodecs) {
    if (bits > 0 && codec.pool_bits == bits) return codec.kind;
  }
  LH_CHECK(false, "no integer codec has so many bits");
  return CodecKind::kInt8;
}

absl::StatusOr<std::unique_ptr<Codec>> MakeCodec(const CodecOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  if (const DenseFormat* format = DenseFormatOf(options.kind))
    return std::make_unique<DenseCodec>(options, *format);
  if (options.kind == CodecKind::kTopk2) return std::make_unique<Topk2Codec>(options);
  return absl::InvalidArgumentError(
      absl::StrFormat("no codec has the number %d", static_cast<int>(options.kind)));
}

}  // namespace longhaul
