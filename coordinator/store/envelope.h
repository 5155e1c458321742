// What lies around a message at the beginning of a file: a magic of eight bytes, whose last is the
// number of the format, the message's size, the message, the digest of all that. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/digest.h"
#include "coordinator/store/wire.h"

namespace longhaul {

// Whether a magic differs from ours by the number of the format alone.
bool IsOtherFormat(absl::string_view magic, absl::string_view found);
// FAILED_PRECONDITION that names the file and both formats.
absl::Status OtherFormat(absl::string_view magic, absl::string_view found, absl::string_view path);

inline constexpr int64_t kEnvelopeBytes = 8 + 4 + 16;  // Besides the message.

inline std::string WithEnvelope(absl::string_view magic, absl::string_view message) {
  WireWriter out;
  out.Bytes(magic);
  out.String(message);
  out.Digest(DigestOf(out.bytes()));
  return out.Take();
}

// The message, which lies in `bytes`; what follows the envelope is not looked at.
// FAILED_PRECONDITION: the magic is that of another format. DATA_LOSS: it does not check. Both name
// `path`.
absl::StatusOr<absl::string_view> OpenEnvelope(absl::string_view magic, absl::string_view bytes,
                                               absl::string_view path);

}  // namespace longhaul
