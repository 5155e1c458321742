#include <memory>

#include "absl/strings/str_format.h"
#include "common/codec/bf16_codec.h"
#include "common/codec/codec.h"
#include "common/codec/e3m0_codec.h"
#include "common/codec/fp32_codec.h"

namespace longhaul {

absl::StatusOr<std::unique_ptr<Codec>> MakeCodec(const CodecOptions& options) {
  if (options.search_scale && options.kind != CodecKind::kE3m0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("search_scale is an option of e3m0, not of %s", CodecName(options.kind)));
  }
  switch (options.kind) {
    case CodecKind::kFp32:
      return std::make_unique<Fp32Codec>(options.kernels);
    case CodecKind::kBf16:
      return std::make_unique<Bf16Codec>(options.kernels);
    case CodecKind::kE3m0:
      return std::make_unique<E3m0Codec>(options.kernels, options.search_scale);
    case CodecKind::kInt8:
    case CodecKind::kInt4:
    case CodecKind::kSign1:
    case CodecKind::kTopk2:
      return absl::UnimplementedError(absl::StrFormat(
          "codec %s is not available; use fp32, bf16 or e3m0", CodecName(options.kind)));
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("no codec has the number %d", static_cast<int>(options.kind)));
}

}  // namespace longhaul
