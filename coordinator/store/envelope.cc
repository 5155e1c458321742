#include "coordinator/store/envelope.h"

#include "absl/strings/str_cat.h"

namespace longhaul {

absl::StatusOr<absl::string_view> OpenEnvelope(absl::string_view magic, absl::string_view bytes,
                                               absl::string_view path) {
  WireReader in(bytes);
  const absl::string_view found = in.Bytes(magic.size());
  const bool other = in.ok() && found.substr(0, 7) == magic.substr(0, 7) && found != magic;
  if (other && found[7] >= '0' && found[7] <= '9') {
    return absl::FailedPreconditionError(absl::StrCat(path, " has the format ", found,
                                                      "; this program has ", magic,
                                                      ": another version of it made the file"));
  }
  const absl::string_view message = in.Bytes(in.U32());
  const size_t covered = bytes.size() - in.rest().size();
  const Digest128 digest = in.Digest();
  if (in.ok() && found == magic && digest == DigestOf(bytes.substr(0, covered))) return message;
  return absl::DataLossError(absl::StrCat(path, " is damaged at byte 0: its head does not check"));
}

}  // namespace longhaul
