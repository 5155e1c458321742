// The envelope around a message at the beginning of a file: a magic of eight bytes (the last one is
// the number of the format), the size of the message, the message, and the digest of all that.
// Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/digest.h"
#include "coordinator/store/wire.h"

namespace longhaul {

// Whether two magics differ only in the number of the format.
bool IsOtherFormat(absl::string_view magic, absl::string_view found);
// A FAILED_PRECONDITION that names the file and both formats.
absl::Status OtherFormat(absl::string_view magic, absl::string_view found, absl::string_view path);

inline std::string WithEnvelope(absl::string_view magic, absl::string_view message) {
  WireWriter out;
  out.Bytes(magic);
  out.String(message);
  out.Digest(DigestOf(out.bytes()));
  return out.Take();
}

// Returns the message, as a view into `bytes`. Bytes after the envelope are ignored.
// FAILED_PRECONDITION: the magic is that of another format. DATA_LOSS: magic, size or digest is
// wrong. Both name `path`.
absl::StatusOr<absl::string_view> OpenEnvelope(absl::string_view magic, absl::string_view bytes,
                                               absl::string_view path);

}  // namespace longhaul
